"""Training a tokenizer: byte-pair encoding by sentencepiece, with options that lose nothing."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

from cem_jax.data.escaping import escape
from cem_jax.data.sentencepiece_tokenizer import SentencePieceTokenizer
from cem_jax.data.splitting import cut
from cem_jax.data.vocabulary import SMALLEST, require_vocabulary

LONGEST = 1 << 15
"""The characters of a line that sentencepiece is given, at most."""

RESERVED = "\u2585"
"""sentencepiece's own sign for the unknown: it leaves out lines that have it."""


def train_tokenizer(documents: Iterable[str], vocabulary: int) -> SentencePieceTokenizer:
    """A byte-pair encoding of exactly ``vocabulary`` pieces, trained on the documents.

    Args:
        documents: the train split, and no other.
        vocabulary: V, 320 to 1,000,000: the 256 bytes and the special pieces are among them.

    Raises:
        ValueError: the vocabulary is too small for the characters of the text, or larger than the
            text can fill; the message says what it can be.
    """
    require_vocabulary(vocabulary)
    import sentencepiece

    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_lines(documents),
            model_writer=model,
            vocab_size=vocabulary,
            **LOSSLESS,
        )
    except RuntimeError as error:
        raise ValueError(_explained(vocabulary, str(error))) from error
    return SentencePieceTokenizer(model.getvalue())


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


def _lines(documents: Iterable[str]) -> Iterator[str]:
    """The lines to learn from, longer ones cut: a whole book may be one."""
    for text in documents:
        for line in escape(text).replace(RESERVED, " ").split("\n"):
            if len(line) <= LONGEST:
                if line:
                    yield line
                continue
            first, *rest = cut(line, LONGEST)
            yield first
            # sentencepiece puts the space in front again, so that the same words are counted.
            yield from (part.removeprefix(" ") or " " for part in rest)


def _explained(vocabulary: int, said: str) -> str:
    """What sentencepiece said, with the number that it would take."""
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", said):
        return (
            f"vocabulary: got {vocabulary}, expected at least {found[1]}, which hold the 256 "
            f"bytes, the special pieces and the characters of this text; choose that or more, or "
            f"take byte."
        )
    if found := re.search(r"too high \(\d+\)\. Please set it to a value <= (\d+)", said):
        if int(found[1]) < SMALLEST:
            return (
                f"vocabulary: got {vocabulary}, expected text that can fill at least {SMALLEST} "
                f"pieces and not {found[1]}; give more text, or take byte."
            )
        return (
            f"vocabulary: got {vocabulary}, expected at most {found[1]}, all the pieces that this "
            f"text can fill; choose that or fewer, or give more text."
        )
    return (
        f"vocabulary: got {vocabulary}, expected text that can fill as many pieces; give more "
        f"text, or take byte. sentencepiece says: {said.strip()}"
    )
