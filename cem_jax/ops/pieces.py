"""Arrays cut into pieces along an axis, for loops that never hold all of what they compute."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array


def cut(x: Array, size: int, axis: int = 1) -> Array:
    """Pieces of ``size`` along an axis, stacked in front; the last is filled up with zeros."""
    count = -(-x.shape[axis] // size)
    padding = [(0, 0)] * x.ndim
    padding[axis] = (0, count * size - x.shape[axis])
    padded = jnp.pad(x, padding)
    pieces = padded.reshape(*x.shape[:axis], count, size, *x.shape[axis + 1 :])
    return jnp.moveaxis(pieces, axis, 0)


def join(pieces: Array, length: int, axis: int = 1) -> Array:
    """The inverse of `cut`."""
    whole = jnp.moveaxis(pieces, 0, axis)
    whole = whole.reshape(*whole.shape[:axis], -1, *whole.shape[axis + 2 :])
    return jax.lax.slice_in_dim(whole, 0, length, axis=axis)
