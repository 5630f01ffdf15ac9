"""Queries in strips, so that the scores of a shared diagonal never fill a whole square.

Without a diagonal, one strip holds all queries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cem_jax.ops.attention_terms import AttentionTerms
from cem_jax.ops.kernels.pallas_gpu_layout import Layout, Problem, Side, fill, round_up, side
from cem_jax.ops.pieces import cut
from cem_jax.ops.visibility import Sites


class Strip(NamedTuple):
    """Some neighbouring queries, filled up, with what a pass needs of them.

    Attributes:
        side: the queries.
        weight: ``[B, R, D]`` of the shared diagonal; None without.
        pull: in a backward pass, what comes back, its ``plane`` left out.
        mean: in a backward pass, ``[B, R, D]``, the cotangent of the mean, in the context's dtype.
    """

    side: Side
    weight: Any
    pull: Any = None
    mean: Any = None


class Whole(NamedTuple):
    """What all strips share.

    Attributes:
        keys: all of them, filled up.
        inverse: ``1 / tau``, ``[1]``, float32.
        context: ``[B, S, D]``, filled up; None without a diagonal.
    """

    keys: Side
    inverse: Float[Array, "1"]
    context: Any

    def at(self, strip: Strip) -> Problem:
        """The problem of one strip, its diagonal scores included."""
        return Problem(strip.side, self.keys, self.inverse, plane(strip.weight, self.context))


def whole(layout: Layout, terms: AttentionTerms, key: Sites) -> Whole:
    """The side of the keys."""
    length = round_up(terms.key.shape[1], layout.columns)
    context = None if terms.context is None else fill(terms.context, length)
    inverse = 1 / terms.temperature.astype(jnp.float32).reshape(1)
    return Whole(side(terms.key, terms.context_key, key, length), inverse, context)


def strips(layout: Layout, terms: AttentionTerms, query: Sites) -> Strip:
    """All strips, stacked; what fills up the last is padding, which sees nothing."""
    queries = side(terms.query, terms.context_query, query, terms.query.shape[1])
    return jax.tree.map(lambda x: cut(x, layout.strip), Strip(queries, terms.weight))


def plane(rows: Array | None, context: Array | None) -> Float[Array, "B R S"] | None:
    """w_i . c_j of a strip, one product for all heads."""
    if rows is None or context is None:
        return None
    return product("bld,bsd->bls", rows, context)


def product(pattern: str, one: Array, other: Array) -> Array:
    """A product of matrices, summed in float32."""
    return jnp.einsum(pattern, one, other, preferred_element_type=jnp.float32)
