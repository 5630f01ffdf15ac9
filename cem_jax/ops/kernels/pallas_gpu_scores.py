"""What the Triton kernels do with one tile of queries and one of keys."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cem_jax.ops.kernels.pallas_gpu_layout import Layout, Side
from cem_jax.ops.visibility import Sites


def dot(a: Array, b: Array, contract: tuple[int, int]) -> Float[Array, "m n"]:
    """The product of two tiles over the named axes, summed in float32.

    Triton would round float32 operands to ten bits of mantissa unless told otherwise.
    """
    precision = jax.lax.Precision.HIGHEST if a.dtype == jnp.float32 else None
    axes = (((contract[0],), (contract[1],)), ((), ()))
    return jax.lax.dot_general(a, b, axes, precision, jnp.float32)


def load(refs: Side, at: Any) -> Side:
    """Some positions of a block, of one head."""
    score = None if refs.score is None else refs.score[at, :]
    return Side(refs.main[at, :], score, Sites(*(x[at] for x in refs.sites)))


def load_head(refs: Side, head: Any) -> Side:
    """One head of a block of all heads."""
    score = None if refs.score is None else refs.score[:, head, :]
    return Side(refs.main[:, head, :], score, Sites(*(x[...] for x in refs.sites)))


def masked_logits(
    layout: Layout, rows: Side, columns: Side, inverse: Array, plane: Array | None
) -> Float[Array, "q k"]:
    """(q . k + w . c) / tau + context score, -inf where nothing may be seen."""
    scores = dot(rows.main, columns.main, (1, 1))
    if plane is not None:
        scores += plane
    logits = scores * inverse
    if rows.score is not None:
        logits += layout.scale * dot(rows.score, columns.score, (1, 1))
    one_row, one_column = jax.tree.map(lambda x: jnp.expand_dims(x, 0), (rows.sites, columns.sites))
    allowed = jnp.squeeze(layout.visible.allowed(one_row, one_column), 0)
    return jnp.where(allowed, logits, -jnp.inf)


def weighted(p: Array, values: Array) -> Float[Array, "q n"]:
    """sum_j p_ij v_j; probabilities meet the values in the values' own dtype."""
    return dot(p.astype(values.dtype), values, (1, 0))


def gathered(p: Array, values: Array) -> Float[Array, "k n"]:
    """sum_i p_ij v_i, likewise."""
    return dot(p.astype(values.dtype), values, (0, 0))
