"""A step in micro-batches: what a batch adds up to, a few of its rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from cem_jax.data.packing import Batch
from cem_jax.ops.constrain import constrain

Sums = TypeVar("Sums")


def summed(function: Callable[[Batch], Sums], batch: Batch, parts: int) -> Sums:
    """sum_m function(micro-batch m), by a scan: one micro-batch is held at a time.

    Of sums over rows it is that of the whole batch, whatever each micro-batch weighs; means must
    be taken of the result. Micro-batch m has the rows m, m + parts, m + 2 parts, ...: each device
    of a mesh cuts its own rows, and none are sent.

    Args:
        function: arrays that are sums over rows, such as nats, tokens and gradients.
        batch: B rows.
        parts: how many micro-batches, a divisor of B; 1 is ``function(batch)``.

    Returns:
        The sums, float32 or wider.

    Raises:
        ValueError: parts do not divide B.
    """
    if parts == 1:
        return function(batch)
    if len(batch.inputs) % parts:
        raise ValueError(
            f"accumulate: got {parts} micro-batches of {len(batch.inputs)} rows, expected a "
            f"divisor; choose one, or another batch."
        )
    micro_batches = jax.tree.map(lambda rows: _cut(rows, parts), batch)

    def add(total: Sums, micro_batch: Batch) -> tuple[Sums, None]:
        placed = jax.tree.map(lambda rows: constrain(rows, "B L"), micro_batch)
        return jax.tree.map(jnp.add, total, function(placed)), None

    first = jax.tree.map(lambda rows: rows[0], micro_batches)
    shapes = jax.eval_shape(function, first)
    zero = jax.tree.map(_zeros, shapes)
    total: Sums = jax.lax.scan(add, zero, micro_batches)[0]
    return total


def _zeros(shape: jax.ShapeDtypeStruct) -> Array:
    """As `ops.dtypes.accumulation_dtype` says: float32 or wider."""
    return jnp.zeros(shape.shape, jnp.promote_types(shape.dtype, jnp.float32))


def _cut(rows: Array, parts: int) -> Array:
    """``[A, B / A, L]`` of ``[B, L]``, where it lies."""
    cut = jnp.reshape(rows, (len(rows) // parts, parts, *rows.shape[1:]))
    # The rules of a layout know no axis A: it is on every device.
    return constrain(jnp.swapaxes(cut, 0, 1), "A B L")
