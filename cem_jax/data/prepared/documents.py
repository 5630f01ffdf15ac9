"""Documents: those of a file, one after the other, and what of it is broken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cem_jax.data.corpora import builtin_corpus
from cem_jax.data.json_lines import BOM, Document, json_document
from cem_jax.data.prepared.inputs import Input
from cem_jax.data.prepared.kinds import kind_of
from cem_jax.data.prepared.parquet import parquet_documents
from cem_jax.data.prepared.plain_text import text_documents
from cem_jax.data.reading import Advanced, blocks

LONGEST = 1 << 26
"""The bytes of a line of JSON, at most; a line is in memory as a whole."""


class Broken(NamedTuple):
    """What cannot be read: a line, or (None) the file, of which nothing more is read.

    Attributes:
        file: its name within the source.
        line: from 1; a row of a parquet file.
        why: what is wrong and what to do.
    """

    file: str
    line: int | None
    why: str


def documents(root: Path | None, file: Input, advanced: Advanced) -> Iterator[Document | Broken]:
    """The documents of an input in their order, streamed.

    Args:
        root: where the input lies; None for a built-in corpus.
        file: the input.
        advanced: is told of bytes that have been read.
    """
    if root is None:
        name, _, split = file.name.rpartition("/")
        yield from map(Document, getattr(builtin_corpus(name), split))
        advanced(file.size)
        return
    path, kind = root / file.name, kind_of(file.name)
    read = {"jsonl": _json_lines, "parquet": parquet_documents}.get(kind or "", text_documents)
    try:
        for found in read(path, advanced):
            if isinstance(found, Document):
                yield found
            else:
                number, error = found
                yield Broken(file.name, number, _named(path, file, error))
    except ValueError as error:
        yield Broken(file.name, None, _named(path, file, error))


def _named(path: Path, file: Input, error: ValueError) -> str:
    """The message with the file's name within the source: the same wherever that lies."""
    return str(error).replace(str(path), file.name)


def _json_lines(path: Path, advanced: Advanced) -> Iterator[Document | tuple[int, ValueError]]:
    for number, line in enumerate(_lines(blocks(path, advanced)), 1):
        where = f"line {number} of {path}"
        if line is None:
            yield number, _too_long(where)
            continue
        line = line.removeprefix(BOM) if number == 1 else line
        if line and not line.isspace():
            try:
                found = json_document(where, line)
            except ValueError as error:
                yield number, error
            else:
                yield found


def _too_long(where: str) -> ValueError:
    return ValueError(
        f"data: got {where}, which is longer than {LONGEST:,} bytes, expected one document on each "
        f"line; divide it, or remove it."
    )


def _lines(parts: Iterator[bytes]) -> Iterator[bytes | None]:
    """The lines of a file in parts, without their ends; None for one that is too long."""
    kept: list[bytes] = []
    size = 0
    for part in parts:
        *ended, rest = part.split(b"\n")
        for piece in ended:
            size += len(piece)
            yield b"".join([*kept, piece]) if size <= LONGEST else None
            kept, size = [], 0
        size += len(rest)
        kept = [*kept, rest] if size <= LONGEST else []
    if size:
        yield b"".join(kept) if size <= LONGEST else None
