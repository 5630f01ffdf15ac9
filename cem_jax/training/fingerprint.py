"""What a saved state is told by: shapes, checksums, and what it belongs to."""

from __future__ import annotations

import json
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cem_jax.sharding.processes import gathered
from cem_jax.training.state import State


class MismatchError(ValueError):
    """A state of another model, optimiser or text: whole, and not what was asked for."""


def leaves(state: State) -> dict[str, str]:
    """Shape and dtype of every array, under its path."""
    return {
        jax.tree_util.keystr(path): shape(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
    }


def shape(leaf: Any) -> str:
    """Dtype and shape of an array, as ``float32[2, 3]``."""
    return f"{getattr(leaf.dtype, 'name', leaf.dtype)}{list(leaf.shape)}"


def checksums(state: State) -> dict[str, int]:
    """A number for every array, under its path, by which damage is seen: the files hold none.

    sum_i (2 i + 1) w_i mod 2^64, where w_i are the bits of element i as an unsigned number: any
    one element that differs, and any two that are exchanged, make another sum. It is a sum so
    that each process adds up what it holds, whatever the layout.

    Several processes must call it together.
    """
    found = jax.tree_util.tree_leaves_with_path(state)
    own = np.asarray([checksum(leaf) for _, leaf in found], "<u8")
    # As halves: a JAX without 64 bits would cut them.
    halves = gathered(own.view("<u4"))
    sums = np.ascontiguousarray(halves).view("<u8").sum(axis=0, dtype=np.uint64)
    return {
        jax.tree_util.keystr(path): int(number)
        for (path, _), number in zip(found, sums, strict=True)
    }


def checksum(leaf: Any) -> int:
    """What this process adds for one array: of each part that it holds, the first copy."""
    if not isinstance(leaf, jax.Array):
        leaf = np.asarray(leaf)
        return _weighted(leaf, (slice(None),) * leaf.ndim, leaf.shape)
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    parts = [
        _weighted(np.asarray(shard.data), shard.index, leaf.shape)
        for shard in leaf.addressable_shards
        if shard.replica_id == 0
    ]
    return sum(parts) % 2**64


def _weighted(part: np.ndarray, index: tuple[slice, ...], shape: tuple[int, ...]) -> int:
    """sum_i (2 i + 1) w_i over a part of an array, i counting the elements of the whole.

    i is a sum over the axes, and so is this: of each axis the sums over all others are enough.
    """
    bits = np.ascontiguousarray(part).view(f"u{part.dtype.itemsize}")
    total = int(bits.sum(dtype=np.uint64))
    for axis, (where, size) in enumerate(zip(index, shape, strict=True)):
        others = tuple(other for other in range(len(shape)) if other != axis)
        along = bits.sum(axis=others, dtype=np.uint64)
        places = np.arange(*where.indices(size), dtype=np.uint64)
        total += 2 * math.prod(shape[axis + 1 :]) * int(np.sum(places * along, dtype=np.uint64))
    return total % 2**64


def require_undamaged(saved: dict[str, int], read: dict[str, int], step: int) -> None:
    """Refuse arrays whose bytes are not those that were saved."""
    for path, checksum in read.items():
        if saved.get(path, checksum) != checksum:
            raise ValueError(
                f"checkpoint: got other numbers for {path} of step {step} than were saved, "
                f"expected the same; its files are damaged: take another step."
            )


def require_equal(stored: Any, expected: Any) -> None:
    """Refuse a description that differs, by the path of the difference.

    Raises:
        MismatchError: something differs.
    """
    one, other = _flat(stored), _flat(expected)
    for path in one | other:
        got, wanted = one.get(path, "nothing"), other.get(path, "nothing")
        if got != wanted:
            raise MismatchError(
                f"checkpoint: got {got} for {path}, expected {wanted}; it is of another model, "
                f"optimiser or text: restore it with the configuration of its run."
            )


def _flat(tree: Any, path: str = "") -> dict[str, str]:
    """JSON values by path."""
    if isinstance(tree, dict):
        items = tree.items()
    elif isinstance(tree, list):
        items = {str(number): item for number, item in enumerate(tree)}.items()
    else:
        return {path: tree if isinstance(tree, str) else json.dumps(tree)}
    joined = ((f"{path}.{key}" if path else key, item) for key, item in items)
    return {key: value for where, item in joined for key, value in _flat(item, where).items()}
