"""The tokenizer: byte-pair encoding by sentencepiece, lossless on any text."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

SPACE, ESCAPE = "\u2581", "\ue000"
"""sentencepiece's own sign for the space, and the private character that escapes it in text."""

SMALLEST = 320
"""256 bytes, the special pieces, and room for some characters."""


class Tokenizer:
    """Text to pieces and back, without loss: every byte that no piece covers is a piece.

    Args:
        model: a sentencepiece model, serialized.

    Attributes:
        vocab_size: V.
        bos: the piece that starts a document.
        eos: the piece that ends it.
    """

    def __init__(self, model: bytes) -> None:
        import sentencepiece

        self.model = model
        self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.vocab_size = int(self._processor.get_piece_size())
        self.bos = int(self._processor.bos_id())
        self.eos = int(self._processor.eos_id())
        if min(self.bos, self.eos) < 0:
            raise ValueError(
                f"tokenizer: got the ids {self.bos} for BOS and {self.eos} for EOS, expected a "
                f"model that has both; train one with train_tokenizer."
            )

    def encode(self, text: str) -> list[int]:
        """The pieces of the text, without BOS and EOS."""
        pieces: list[int] = self._processor.encode(_escape(text))
        return pieces

    def decode(self, pieces: Sequence[int]) -> str:
        """The text of the pieces; BOS and EOS have none."""
        return _unescape(self._processor.decode([int(piece) for piece in pieces]))

    def document(self, text: str) -> list[int]:
        """BOS, the pieces, EOS: so that the first piece and the end are predicted."""
        return [self.bos, *self.encode(text), self.eos]

    def content_hash(self) -> str:
        """SHA-256 of the model."""
        return hashlib.sha256(self.model).hexdigest()

    def save(self, folder: Path) -> None:
        """Write ``tokenizer.model``, which `load` and sentencepiece itself read."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE_NAME).write_bytes(self.model)

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """What `save` wrote."""
        path = folder / FILE_NAME
        if not path.is_file():
            raise ValueError(f"tokenizer: got no file {path}, expected what Tokenizer.save wrote.")
        return cls(path.read_bytes())


FILE_NAME = "tokenizer.model"


def train_tokenizer(documents: Iterable[str], vocabulary: int) -> Tokenizer:
    """A byte-pair encoding of exactly ``vocabulary`` pieces, trained on the documents.

    Args:
        documents: the train split, and no other.
        vocabulary: V, at least 320: the 256 bytes and the special pieces are among them.

    Raises:
        ValueError: the vocabulary is too small, or larger than the text can fill.
    """
    require_vocabulary(vocabulary)
    import sentencepiece

    lines = (_escape(line) for text in documents for line in text.split("\n") if line)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines, model_writer=model, vocab_size=vocabulary, **LOSSLESS
        )
    except RuntimeError as error:
        raise ValueError(
            f"vocabulary: got {vocabulary}, expected a number of pieces that this text can fill; "
            f"choose another, or give more text. sentencepiece says: {error}"
        ) from error
    return Tokenizer(model.getvalue())


LOSSLESS: dict[str, Any] = {
    "model_type": "bpe",
    "byte_fallback": True,
    "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False,
    "split_digits": True,
    "user_defined_symbols": ["\n"],
    "allow_whitespace_only_pieces": True,
    # Longer lines are dropped without a word by default.
    "max_sentence_length": 1 << 26,
    # Errors only: the training log is long.
    "minloglevel": 2,
}
"""The options of sentencepiece that keep every byte of the text."""


def require_vocabulary(vocabulary: int) -> None:
    """Refuse a vocabulary that cannot hold the bytes and some characters."""
    if vocabulary < SMALLEST:
        raise ValueError(
            f"vocabulary: got {vocabulary}, expected at least {SMALLEST}, which hold the 256 "
            f"bytes, the special pieces and some characters."
        )


def _escape(text: str) -> str:
    return text.replace(ESCAPE, ESCAPE + "0").replace(SPACE, ESCAPE + "1")


def _unescape(text: str) -> str:
    return text.replace(ESCAPE + "1", SPACE).replace(ESCAPE + "0", ESCAPE)
