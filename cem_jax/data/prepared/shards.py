"""Shards: packed rows as records of ArrayRecord files, and how they are written.

A record is a row: its L + 1 pieces and then their L + 1 segments, each little-endian in 2 bytes
where both fit, else in 4. Positions follow from the segments.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cem_jax.data.packing import PackedRows, positions

DRAFT = ".part"
"""How files end that are not whole yet."""

WRITING = "group_size:1,zstd:1"
"""One record is decoded for one that is read."""

ENDS = 3 << 16
"""The bytes at either end of a file that it is known by; the index of its rows is at one."""


@dataclasses.dataclass(frozen=True)
class Shard:
    """A file of rows.

    Attributes:
        name: of the file.
        split: of the rows.
        rows: how many.
        targets: how many the rows hold.
        size: of the file, in bytes.
        sha256: of the rows as they are before they are compressed.
        ends: `ends_of` the file; empty where it was written before there was one.
    """

    name: str
    split: str
    rows: int
    targets: int
    size: int
    sha256: str
    ends: str = ""


class RowFormat(NamedTuple):
    """How a row is stored: L, and the kind of its numbers."""

    length: int
    dtype: str

    @classmethod
    def of(cls, length: int, vocab_size: int) -> RowFormat:
        """The smallest that holds every piece and every segment."""
        return cls(length, "<u2" if max(vocab_size - 1, length + 1) < 1 << 16 else "<u4")

    @property
    def record_bytes(self) -> int:
        """The bytes of a row."""
        return 2 * (self.length + 1) * np.dtype(self.dtype).itemsize

    def encode(self, rows: PackedRows) -> list[bytes]:
        """A record for each row."""
        both = np.stack([rows.tokens, rows.segment], axis=1).astype(self.dtype)
        return [record.tobytes() for record in both]

    def decode(self, records: list[bytes]) -> PackedRows:
        """The rows of the records."""
        flat = np.frombuffer(b"".join(records), self.dtype).astype(np.int32)
        both = flat.reshape(len(records), 2, self.length + 1)
        return PackedRows(both[:, 0], both[:, 1], positions(both[:, 1]))


class ShardWriter:
    """A shard that is not there until it is whole.

    Args:
        path: of the file.
        split: of its rows.
        form: how rows are stored.
    """

    def __init__(self, path: Path, split: str, form: RowFormat) -> None:
        # Imported here: only who prepares or reads shards needs it.
        from array_record.python import array_record_module

        self._path, self._split, self._form = path, split, form
        self._draft = path.with_name(path.name + DRAFT)
        with self._written():
            self._file: Any = array_record_module.ArrayRecordWriter(str(self._draft), WRITING)
        self._hash, self._rows, self._targets = hashlib.sha256(), 0, 0

    def write(self, rows: PackedRows) -> None:
        """Append rows.

        Raises:
            OSError: they cannot be written, as where the disk is full.
        """
        with self._written():
            for record in self._form.encode(rows):
                self._hash.update(record)
                self._file.write(record)
        self._rows += len(rows)
        self._targets += rows.predicted

    def close(self) -> Shard:
        """End the file and put it in its place.

        Raises:
            OSError: it cannot be written.
        """
        with self._written():
            self._file.close()
        settle(self._draft, self._path)
        size = self._path.stat().st_size
        digest = self._hash.hexdigest()
        ends = ends_of(self._path)
        return Shard(self._path.name, self._split, self._rows, self._targets, size, digest, ends)

    @contextlib.contextmanager
    def _written(self) -> Iterator[None]:
        """The library has no word of its own for what a disk refuses."""
        try:
            yield
        except RuntimeError as error:
            raise OSError(f"{self._draft} cannot be written ({error})") from error


def ends_of(path: Path) -> str:
    """SHA-256 of the first and the last `ENDS` bytes of a file.

    Cheap whatever its size; files of other rows differ there, as the end says where each row lies.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        digest.update(file.read(ENDS))
        file.seek(max(0, path.stat().st_size - ENDS))
        digest.update(file.read(ENDS))
    return digest.hexdigest()


def settle(draft: Path, path: Path) -> None:
    """Put a file in its place, on the disk before its name is."""
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    draft.replace(path)
