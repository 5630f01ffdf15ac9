"""The batch of a step, as a pure function of (seed, step)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cem_jax.data.packing import Batch, Rows
from cem_jax.data.prepared.rows import MixedRows, Share

ALL = slice(None)


class Pipeline:
    """Shuffled rows, endlessly, each epoch in an order of its own.

    batch(s) depends on the rows, the seed and s alone: a run that resumes at step s needs no
    state of the data, and batches may be asked for in any order. An epoch's rows are the same
    multiset in each epoch; where the batch does not divide the rows, a batch spans two. Of rows of
    several sources (`MixedRows`) each batch has as many of each as the weights say, to a row, and
    each source has epochs of its own.

    Args:
        rows: what is shuffled.
        batch: B, the rows of a step, at least 1.
        seed: of the shuffle.
    """

    def __init__(self, rows: Rows, *, batch: int, seed: int) -> None:
        if batch < 1:
            raise ValueError(f"batch: got {batch}, expected at least 1.")
        if not len(rows):
            raise ValueError("rows: got none, expected at least one.")
        self.rows = rows
        # Shuffled before it is batched (or, on several hosts, sliced): the rows of a step do not
        # depend on who reads them.
        self._dataset: Any = _drawn(rows, seed).batch(batch)

    def batch(self, step: int, rows: slice | np.ndarray = ALL) -> Batch:
        """The batch of step ``step``, from 0, or some of its rows.

        Raises:
            ValueError: they cannot be read.
        """
        numbers = self.rows_of(step)[rows]
        try:
            return self.rows.batch(numbers)
        except ValueError as error:
            raise ValueError(f"{error} The batch of step {step + 1:,} needs it.") from error

    def where(self, step: int) -> str:
        """Where the rows of a step lie, for a message."""
        return ", ".join(self.rows.where(number) for number in self.rows_of(step).tolist())

    def rows_of(self, step: int) -> np.ndarray:
        """The numbers of its rows, ``[B]``."""
        if step < 0:
            raise ValueError(f"step: got {step}, expected at least 0.")
        numbers: np.ndarray = self._dataset[step]
        return numbers


class _Indices:
    """Grain's source: row numbers, gathered into a batch at once, which is faster than by row."""

    def __init__(self, numbers: range) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> np.ndarray:
        return np.asarray(self.numbers[index])


def _drawn(rows: Rows, seed: int) -> Any:
    """The numbers of the rows, endlessly."""
    if not isinstance(rows, MixedRows):
        return _shuffled(range(len(rows)), seed)
    import grain

    # Sources of one size would else have one order.
    seeds = np.random.SeedSequence(seed).generate_state(len(rows.shares)).tolist()
    spans = zip(_spans(rows.shares), seeds, strict=True)
    parts = [_shuffled(span, own) for span, own in spans]
    return grain.MapDataset.mix(parts, weights=[share.weight for share in rows.shares])


def _spans(shares: tuple[Share, ...]) -> list[range]:
    ends = np.cumsum([share.rows for share in shares]).tolist()
    return [range(end - share.rows, end) for end, share in zip(ends, shares, strict=True)]


def _shuffled(numbers: range, seed: int) -> Any:
    # Imported here: only who feeds a model from the pipeline needs grain.
    import grain

    return grain.MapDataset.source(_Indices(numbers)).seed(seed).shuffle().repeat(None)
