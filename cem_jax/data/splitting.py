"""Splitting: text of few documents in pieces, enough of them to hold some out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cem_jax.data.text import to_bytes

LONGEST = 64_000
"""The bytes of a piece, at most."""

FEWEST = 40
"""The pieces, at least: two for validation and two for the test, where one of twenty is."""


def split(documents: Sequence[str]) -> list[str]:
    """Pieces of at most 64 kB, at least 40 where there are as many characters.

    Each is of one document, and joined they are the documents. They end as those of `cut` do.
    """
    characters = sum(len(text) for text in documents)
    most = max(1, min(LONGEST, characters // FEWEST))
    return [piece for text in documents for piece in light(text, most)]


def cut(text: str, most: int) -> Iterator[str]:
    """The text in pieces of at most ``most`` characters, at least 1; joined, they are the text.

    A piece ends after the last line end that it can, else before the last space, else anywhere.
    """
    start = 0
    while start < len(text):
        end = _end(text, start, start + most) if start + most < len(text) else len(text)
        yield text[start:end]
        start = end


def _end(text: str, start: int, most: int) -> int:
    """Where the piece from ``start`` ends, at ``most`` or before."""
    line = text.rfind("\n", start, most)
    if line >= 0:
        return line + 1
    # The space starts the next piece: tokenizers have it in front of a word.
    space = text.rfind(" ", start + 1, most + 1)
    return most if space < 0 else space


def light(text: str, most: int) -> Iterator[str]:
    """Pieces of at most ``most`` characters that are not above 64 kB either."""
    for piece in cut(text, most):
        if len(to_bytes(piece)) <= LONGEST:
            yield piece
        else:
            yield from light(piece, len(piece) // 2)
