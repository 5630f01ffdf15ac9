"""Shards, read at random: the rows that were written, or an error that names the file."""

from __future__ import annotations

import contextlib
import shlex
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cem_jax.data.packing import PackedRows
from cem_jax.data.prepared.shards import RowFormat, Shard, ends_of

OPEN = 256
"""Shards that are open at a time: systems allow about a thousand files."""

READING = "readahead_buffer_size:0,max_parallelism:0"


class ShardFile(NamedTuple):
    """A shard and the file that it should be."""

    path: Path
    shard: Shard

    def require_whole(self) -> None:
        """Refuse a file that is not the one that was written, as far as can be seen at once.

        Its size, the number of its rows, and its ends are compared; its rows are not read. A row
        that was damaged since is found when it is read: each has a checksum.

        Raises:
            ValueError: it is gone, or another.
        """
        with self.reading():
            size = self.path.stat().st_size if self.path.is_file() else None
        if size != self.shard.size:
            found = "is missing" if size is None else f"has {size:,} bytes"
            raise self._refused(f"which {found}", f"{self.shard.size:,} bytes")
        with self.reading():
            file = _opened(self.path)
            rows = file.num_records()
            file.close()
        if rows != self.shard.rows:
            raise self._refused(f"which holds {rows:,} rows", f"{self.shard.rows:,}")
        if self.shard.ends and ends_of(self.path) != self.shard.ends:
            raise self._refused("whose ends are not those that were written", "the same file")

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Name the file in what goes wrong inside the ``with`` block."""
        try:
            yield
        except (RuntimeError, OSError) as error:
            raise self._refused(f"which cannot be read ({error})", "what was written") from error

    def require_records(self, records: Sequence[bytes], size: int) -> None:
        """Refuse records that are no rows of so many bytes."""
        for record in records:
            if len(record) != size:
                raise self._refused(f"with a row of {len(record):,} bytes", f"{size:,}")

    def _refused(self, got: str, expected: str) -> ValueError:
        return ValueError(
            f"data: got {self.path}, {got}, expected {expected}; copy it again from where it is "
            f"whole, or remove the manifest.json beside it and run the same cem data prepare "
            f"again. cem data inspect {shlex.quote(str(self.path.parent))} --verify reads every "
            f"row."
        )


class ShardReader:
    """The rows of several shards, numbered through.

    Args:
        files: in their order.
        form: how rows are stored in all of them.
    """

    def __init__(self, files: Sequence[ShardFile], form: RowFormat) -> None:
        self.form, self.files = form, tuple(files)
        self._starts = np.cumsum([0, *(file.shard.rows for file in files)])
        self._open: OrderedDict[int, Any] = OrderedDict()
        # A thread reads ahead while another looks at the rows of a step.
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return int(self._starts[-1])

    def where(self, number: int) -> str:
        """Where a row lies, for a message."""
        shard = int(np.searchsorted(self._starts, number, side="right")) - 1
        return f"{number - self._starts[shard]} of {self.files[shard].path}"

    def read(self, numbers: np.ndarray) -> PackedRows:
        """The rows of these numbers, in their order.

        Raises:
            ValueError: a shard is gone or damaged.
        """
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(self):
            raise IndexError(f"rows: got {numbers}, expected 0 to {len(self) - 1}.")
        of = np.searchsorted(self._starts, numbers, side="right") - 1
        records: list[bytes] = [b""] * len(numbers)
        for shard in np.unique(of).tolist():
            places = np.flatnonzero(of == shard)
            found = self._records(shard, (numbers[places] - self._starts[shard]).tolist())
            for place, record in zip(places, found, strict=True):
                records[place] = record
        return self.form.decode(records)

    def _records(self, shard: int, numbers: list[int]) -> list[bytes]:
        file = self.files[shard]
        with self._lock, file.reading():
            found: list[bytes] = self._reader(shard).read(numbers)
        file.require_records(found, self.form.record_bytes)
        return found

    def _reader(self, shard: int) -> Any:
        if shard not in self._open:
            if len(self._open) >= OPEN:
                self._open.popitem(last=False)[1].close()
            self._open[shard] = _opened(self.files[shard].path)
        self._open.move_to_end(shard)
        return self._open[shard]


def _opened(path: Path) -> Any:
    # Imported here: only who reads shards needs it.
    from array_record.python import array_record_module

    return array_record_module.ArrayRecordReader(str(path), READING)
