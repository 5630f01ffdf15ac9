"""What a saved state is told by: shapes, checksums, and what it belongs to."""

from __future__ import annotations

import json
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

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
    """CRC-32 of every array's bytes, under its path: the files themselves hold none.

    Arrays that other processes hold a part of are left out.
    """
    return {
        jax.tree_util.keystr(path): checksum(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
        if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable
    }


def checksum(leaf: Any) -> int:
    """CRC-32 of an array's bytes; of random keys, of their data."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return zlib.crc32(np.ascontiguousarray(leaf).view(np.uint8).data)


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
