"""The batch of a step, as a pure function of (seed, step)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cem_jax.data.packing import Batch, Rows

ALL = slice(None)


class Pipeline:
    """Shuffled rows, endlessly, each epoch in an order of its own.

    batch(s) depends on the rows, the seed and s alone: a run that resumes at step s needs no
    state of the data, and batches may be asked for in any order. An epoch's rows are the same
    multiset in each epoch; where the batch does not divide the rows, a batch spans two.

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
        self._dataset: Any = _shuffled(_Indices(len(rows)), seed).batch(batch)

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

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> np.ndarray:
        return np.asarray(index)


def _shuffled(source: Any, seed: int) -> Any:
    # Imported here: only who feeds a model from the pipeline needs grain.
    import grain

    return grain.MapDataset.source(source).seed(seed).shuffle().repeat(None)
