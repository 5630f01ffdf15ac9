"""The tokenizer of a sentencepiece model, lossless on any text."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cem_jax.data.escaping import SPACE, escape, unescape
from cem_jax.data.splitting import cut
from cem_jax.data.text import from_bytes
from cem_jax.data.tokenizer_files import MODEL_FILE, write_tokenizer
from cem_jax.data.vocabulary import require_pieces

LONGEST = 1 << 13
"""The characters that sentencepiece encodes at a time: it takes longer for them in one."""


class SentencePieceTokenizer:
    """Text to pieces and back, without loss: every byte that no piece covers is a piece.

    What sentencepiece would lose is escaped (`cem_jax.data.escaping`).

    Args:
        model: a sentencepiece model, serialized.

    Attributes:
        vocab_size: V.
        bos: the piece that starts a document.
        eos: the piece that ends it.

    Raises:
        ValueError: it is no such model, or lacks what keeps every text: BOS, EOS, and a piece for
            each byte.
    """

    def __init__(self, model: bytes) -> None:
        self.model = model
        self._processor = _processor(model)
        self.vocab_size = int(self._processor.get_piece_size())
        self.bos = int(self._processor.bos_id())
        self.eos = int(self._processor.eos_id())
        if min(self.bos, self.eos) < 0:
            raise ValueError(
                f"tokenizer: got the ids {self.bos} for BOS and {self.eos} for EOS, expected a "
                f"model that has both; {OTHERWISE}."
            )
        self._surfaces = _surfaces(self._processor, self.vocab_size)
        # Most models put a space in front of the text, and take it away again.
        self._prefixed = self._joined(self._processor.encode("a")).startswith(SPACE)
        self._line_end = list(self._processor.encode("\n"))
        self._require_lossless()

    def encode(self, text: str) -> list[int]:
        """The pieces of the text, without BOS and EOS.

        Text above 8,192 characters is encoded in parts, cut at line ends, else at spaces.
        """
        first, *rest = list(cut(text, LONGEST)) or [""]
        if not rest:
            return list(self._processor.encode(escape(first)))
        # A part begins with the piece of a line end, which is taken away again, and not with the
        # space that sentencepiece puts in front of a text.
        marked = [escape(first), *("\n" + escape(part) for part in rest)]
        head, *tails = self._processor.encode(marked)
        skip = len(self._line_end)
        if any(list(tail[:skip]) != self._line_end for tail in tails):
            return list(self._processor.encode(escape(text)))
        for tail in tails:
            head += tail[skip:]
        return list(head)

    def decode(self, pieces: Sequence[int]) -> str:
        """The text of any pieces; BOS and EOS have none.

        Pieces that a model draws may be bytes that are not UTF-8: they are those of `from_bytes`.
        """
        text = self._joined(require_pieces(pieces, self.vocab_size))
        text = text.removeprefix(SPACE) if self._prefixed else text
        return unescape(text.replace(SPACE, " "))

    def document(self, text: str) -> list[int]:
        """BOS, the pieces, EOS: so that the first piece and the end are predicted."""
        return [self.bos, *self.encode(text), self.eos]

    def content_hash(self) -> str:
        """SHA-256 of the model."""
        return hashlib.sha256(self.model).hexdigest()

    def save(self, folder: Path) -> None:
        """Write ``tokenizer.model``, which `load_tokenizer` and sentencepiece itself read."""
        write_tokenizer(folder, MODEL_FILE, self.model)

    def _joined(self, pieces: Sequence[int]) -> str:
        return from_bytes(b"".join([self._surfaces[piece] for piece in pieces]))

    def _require_lossless(self) -> None:
        bytes_ = sum(map(bool, self._processor.is_byte(list(range(self.vocab_size)))))
        if bytes_ != 256:
            raise ValueError(
                f"tokenizer: got a model with {bytes_} pieces for single bytes, expected 256 "
                f"(byte_fallback), as text could be lost; {OTHERWISE}."
            )
        back = self.decode(self.encode(PROBE))
        if back != PROBE:
            raise ValueError(
                f"tokenizer: got a model that makes {back!r} of {PROBE!r}, expected the same text "
                f"(normalization_rule_name=identity, remove_extra_whitespaces=false); {OTHERWISE}."
            )


PROBE = " A  b\t\r\n\n e\u0301 é \u00a0 ﬁ ½ \u3000 \uff21 \u017f \u200b\0  "
"""What models that normalize text or remove spaces would change."""

OTHERWISE = "train one with train_tokenizer (train:VOCAB), or take byte"


def _processor(model: bytes) -> Any:
    # Imported here: only who trains or samples needs it.
    import sentencepiece

    try:
        # An empty model is none to sentencepiece, and no error either.
        if model:
            return sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError:
        pass
    raise ValueError(
        f"tokenizer: got {len(model)} bytes that are no sentencepiece model, expected what "
        f"sentencepiece writes as a .model file; {OTHERWISE}."
    )


def _surfaces(processor: Any, vocab_size: int) -> list[bytes]:
    """What each piece is in the text. sentencepiece's decode loses bytes that are not UTF-8."""
    numbers = list(range(vocab_size))
    names = processor.id_to_piece(numbers)
    surfaces = [str(name).encode() for name in names]
    for number, (byte, control) in enumerate(
        zip(processor.is_byte(numbers), processor.is_control(numbers), strict=True)
    ):
        if byte:
            surfaces[number] = bytes([int(names[number][1:-1], 16)])
        elif control:
            surfaces[number] = b""
    # The unknown piece has a text of its own. No text encodes to it; models may draw it.
    unknown = int(processor.unk_id())
    surfaces[unknown] = str(processor.decode([unknown])).encode()
    return surfaces
