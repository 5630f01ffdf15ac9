"""Arrays that no process has the whole of, made of the rows that each reads."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding


class Spread:
    """Places batches whose rows are read where they are needed.

    Args:
        sharding: of arrays ``[B, L]``.
        shape: (B, L).
    """

    def __init__(self, sharding: NamedSharding, shape: tuple[int, int]) -> None:
        self._sharding, self._shape = sharding, shape
        held = np.zeros(shape[0], bool)
        for index in sharding.addressable_devices_indices_map(shape).values():
            held[_both(index)[0]] = True
        self.rows: np.ndarray = np.flatnonzero(held)
        """The rows of a batch that this process's devices hold, in order; all on one process."""
        self._place = np.cumsum(held) - 1

    def __call__(self, part: Any) -> Any:
        """The whole batch, of which this process has the ``rows``.

        Args:
            part: a tree of arrays ``[len(rows), L]``.
        """
        return jax.tree.map(self._whole, part)

    def _whole(self, part: np.ndarray) -> jax.Array:
        def piece(index: tuple[slice, ...] | None) -> np.ndarray:
            rows, positions = _both(index)
            found: np.ndarray = part[self._place[rows]][:, positions]
            return found

        return jax.make_array_from_callback(self._shape, self._sharding, piece)


def _both(index: tuple[slice, ...] | None) -> tuple[slice, ...]:
    """The rows and positions of a device; JAX has None for a device that has none."""
    return (slice(0), slice(0)) if index is None else index
