"""Vocabularies: which sizes a tokenizer can have, and which pieces."""

from __future__ import annotations

import operator
from collections.abc import Iterable

SMALLEST = 320
"""256 bytes, the special pieces, and room for some characters."""

LARGEST = 1_000_000
"""More pieces than any language model has; sentencepiece works long before it says no to more."""


def require_vocabulary(vocabulary: int) -> None:
    """Refuse a vocabulary that cannot hold the bytes and some characters, or that is absurd."""
    if not SMALLEST <= vocabulary <= LARGEST:
        bound = f"at least {SMALLEST}" if vocabulary < SMALLEST else f"at most {LARGEST}"
        raise ValueError(
            f"vocabulary: got {vocabulary}, expected {bound}; a trained tokenizer has the 256 "
            f"bytes, the special pieces and some characters, and then what it learns."
        )


def require_pieces(pieces: Iterable[int], vocab_size: int) -> list[int]:
    """The pieces as integers.

    Raises:
        ValueError: one is not in the vocabulary.
    """
    numbers = [operator.index(piece) for piece in pieces]
    for number in numbers:
        if not 0 <= number < vocab_size:
            raise ValueError(
                f"pieces: got {number}, expected 0 to {vocab_size - 1}; take the tokenizer that "
                f"the pieces are from."
            )
    return numbers
