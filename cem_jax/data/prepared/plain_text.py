"""Plain text, streamed: documents that U+001E separates, and pieces of very long ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cem_jax.data.json_lines import Document
from cem_jax.data.reading import Advanced, blocks
from cem_jax.data.sources import SEPARATOR
from cem_jax.data.splitting import LONGEST, light
from cem_jax.data.text import from_bytes

WHOLE = 1 << 20
"""The bytes of a document that stays whole, at most; a file of books without separators is one."""


def text_documents(path: Path, advanced: Advanced) -> Iterator[Document]:
    """The documents of a text file; one above 1 MiB comes in pieces of at most 64 kB.

    Pieces end after a line where they can (`cem_jax.data.splitting`); joined, they are the text.
    """
    for part, long in _parts(blocks(path, advanced)):
        text = from_bytes(part)
        yield from map(Document, light(text, LONGEST) if long else [text])


def _parts(blocks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Documents, or parts of at most `WHOLE` bytes, and which it is."""
    kept, long = bytearray(), False
    separator = SEPARATOR.encode()
    for block in blocks:
        *ended, rest = block.split(separator)
        for piece in ended:
            kept += piece
            for part in _heads(kept):
                long = True
                yield part, long
            yield bytes(kept), long
            kept, long = bytearray(), False
        kept += rest
        for part in _heads(kept):
            long = True
            yield part, long
    yield bytes(kept), long


def _heads(kept: bytearray) -> Iterator[bytes]:
    """Take parts from the front until what is left may stay whole."""
    while len(kept) > WHOLE:
        end = _end(kept)
        yield bytes(kept[:end])
        del kept[:end]


def _end(kept: bytearray) -> int:
    """Where the first part ends: after a line, else before a space, else between characters."""
    if (line := kept.rfind(b"\n", 0, WHOLE)) >= 0:
        return line + 1
    if (space := kept.rfind(b" ", 1, WHOLE)) > 0:
        return space
    # A character of UTF-8 has at most three bytes after its first.
    ends = range(WHOLE, max(WHOLE - 4, 0), -1)
    return next((end for end in ends if kept[end] & 0xC0 != 0x80), WHOLE)
