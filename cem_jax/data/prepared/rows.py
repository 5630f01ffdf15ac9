"""Prepared rows: the interface of packed rows over shards on disk."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cem_jax.data.packing import Batch, PackedRows
from cem_jax.data.prepared.shard_reader import ShardReader

COUNTED = 1024
"""Rows that are read at a time where targets are counted."""


@dataclasses.dataclass(frozen=True)
class PreparedRows:
    """Rows of a split, read when they are asked for; `cem_jax.data.packing.Rows` says what they do.

    Attributes:
        reader: of the shards of the split.
        numbers: of the rows in it.
        empty: rows without anything, after those.
    """

    reader: ShardReader
    numbers: range
    empty: int = 0

    def __len__(self) -> int:
        return len(self.numbers) + self.empty

    @property
    def length(self) -> int:
        """L, the number of inputs in a row."""
        return self.reader.form.length

    @functools.cached_property
    def predicted(self) -> int:
        """How many targets the rows hold: from the manifest for all of them, else counted."""
        if self.numbers == range(len(self.reader)):
            return sum(file.shard.targets for file in self.reader.files)
        starts = range(0, len(self), COUNTED)
        return sum(int(self.batch(slice(s, s + COUNTED)).mask.sum()) for s in starts)

    def batch(self, rows: slice | Sequence[int] | np.ndarray) -> Batch:
        """The chosen rows as inputs and targets."""
        return self.packed(rows).batch(slice(None))

    def packed(self, rows: slice | Sequence[int] | np.ndarray) -> PackedRows:
        """The chosen rows, in memory.

        Raises:
            IndexError: a number is not from 0 to N - 1.
        """
        if isinstance(rows, slice):
            rows = range(*rows.indices(len(self)))
        chosen = np.asarray(rows, np.int64)
        if chosen.size and not 0 <= chosen.min() <= chosen.max() < len(self):
            raise IndexError(f"rows: got {chosen}, expected 0 to {len(self) - 1}.")
        there = chosen < len(self.numbers)
        read = self.reader.read(self.numbers.start + self.numbers.step * chosen[there])
        if there.all():
            return read
        filled = np.zeros((3, len(chosen), self.length + 1), np.int32)
        filled[:, there] = read.tokens, read.segment, read.position
        return PackedRows(*filled)

    def select(self, rows: slice) -> PreparedRows:
        """Some of the rows that are not empty."""
        return PreparedRows(self.reader, self.numbers[rows])

    def padded(self, multiple: int) -> PreparedRows:
        """With empty rows at the end, up to a multiple; an empty row predicts nothing."""
        return dataclasses.replace(self, empty=self.empty + -len(self) % multiple)

    def where(self, number: int) -> str:
        """Where a row lies: its number in a shard, and the file."""
        return self.reader.where(self.numbers[number])


class Share(NamedTuple):
    """Neighbouring rows of one source, and how often one of them is drawn beside other sources'."""

    rows: int
    weight: float


@dataclasses.dataclass(frozen=True)
class MixedRows(PreparedRows):
    """Rows of several sources, one after the other; some of them selected are rows like others.

    Attributes:
        shares: in their order, all rows together.
    """

    shares: tuple[Share, ...] = ()
