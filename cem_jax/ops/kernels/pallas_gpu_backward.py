"""The backward Triton kernels: probabilities computed again, tile by tile.

    ds_hij = p_hij (do_hi . k_j + dm_i . c_j - shift_hi),
    dq_hi = sum_j ds_hij k_j / tau,    dk_j = sum_hi ds_hij q_hi / tau + p_hij do_hi,

where shift_hi = sum_j p_hij (do_hi . k_j + dm_i . c_j) - dlse_hi, and likewise for the context
score. No two programs write to the same place: queries are gathered for tiles of queries, keys for
tiles of keys.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

from cem_jax.ops.kernels.pallas_gpu_layout import Layout, Problem, Pull, Side
from cem_jax.ops.kernels.pallas_gpu_scores import dot, gathered, load, masked_logits, weighted
from cem_jax.ops.kernels.pallas_gpu_specs import (
    by_key_tile,
    by_row_tile,
    key_heads,
    row_heads,
    run,
    vector,
)


def mean_pull(layout: Layout, problem: Problem, pull: Pull) -> Float[Array, "B H R"]:
    """sum_j p_hij dm_i . c_j, what a shared mean adds to the shift of each head.

    Args:
        layout: what is static.
        problem: queries, keys, temperature and diagonal scores.
        pull: its ``log_sum`` and ``plane``.
    """
    batch, strip, heads, _ = problem.rows.main.shape
    grid = by_row_tile(layout, problem)
    outputs = ((jax.ShapeDtypeStruct((batch, heads, strip), jnp.float32), vector(grid)),)
    kernel = functools.partial(_mean_pull, layout)
    return run("mean_pull", kernel, layout, grid, problem, pull, outputs)[0]


def pull_queries(layout: Layout, problem: Problem, pull: Pull) -> list[Float[Array, "B R H N"]]:
    """The cotangents of the queries, and of those of the context score where there are any."""
    batch, strip, heads, _ = problem.rows.main.shape
    grid = by_row_tile(layout, problem)
    outputs = [
        (
            jax.ShapeDtypeStruct((batch, strip, heads, x.shape[-1]), jnp.float32),
            row_heads(grid, x.shape[-1]),
        )
        for x in (problem.rows.main, problem.rows.score)
        if x is not None
    ]
    kernel = functools.partial(_pull_queries, layout)
    return list(run("pull_queries", kernel, layout, grid, problem, pull, outputs))


def pull_keys(layout: Layout, problem: Problem, pull: Pull) -> list[Float[Array, "B S H N"]]:
    """The cotangents of the keys, and of those of the context score; per head, not yet summed."""
    batch, length = problem.keys.main.shape[:2]
    heads = problem.rows.main.shape[2]
    grid = by_key_tile(layout, problem)
    outputs = [
        (
            jax.ShapeDtypeStruct((batch, length, heads, x.shape[-1]), jnp.float32),
            key_heads(lambda j, b, h: (b, j, h), layout.columns, x.shape[-1]),
        )
        for x in (problem.keys.main, problem.keys.score)
        if x is not None
    ]
    kernel = functools.partial(_pull_keys, layout)
    return list(run("pull_keys", kernel, layout, grid, problem, pull, outputs))


def probability_and_pull(
    layout: Layout, rows: Side, columns: Side, inverse: Array, planes: Any, pull: Pull
) -> tuple[Float[Array, "q k"], Float[Array, "q k"]]:
    """p and ds of one tile of queries and one of keys, of one head.

    Args:
        layout: what is static.
        rows: a tile of queries.
        columns: a tile of keys.
        inverse: 1 / tau.
        planes: w . c and dm . c of the tiles, or two Nones.
        pull: ``log_sum``, ``shift`` and ``cotangent`` of the queries.
    """
    logits = masked_logits(layout, rows, columns, inverse, planes[0])
    p = jnp.exp(logits - pull.log_sum[:, None])
    moved = dot(pull.cotangent, columns.main, (1, 1)) - pull.shift[:, None]
    if planes[1] is not None:
        moved += planes[1]
    return p, p * moved


def _mean_pull(layout: Layout, refs: Problem, pull: Pull, bounds: Any, out_ref: Any) -> None:
    rows, inverse = load(refs.rows, slice(None)), refs.inverse[0]
    log_sum = pull.log_sum[...]

    def look(j: Array, total: Array) -> Array:
        at = pl.ds(j * layout.columns, layout.columns)
        columns = load(refs.keys, at)
        logits = masked_logits(layout, rows, columns, inverse, refs.plane[:, at])
        return total + jnp.sum(jnp.exp(logits - log_sum[:, None]) * pull.plane[:, at], axis=1)

    start = jnp.zeros((layout.rows,), jnp.float32)
    out_ref[...] = jax.lax.fori_loop(bounds[0][0], bounds[1][0], look, start)


def _pull_queries(layout: Layout, refs: Problem, pull: Pull, bounds: Any, *out_refs: Any) -> None:
    rows, inverse = load(refs.rows, slice(None)), refs.inverse[0]
    mine = Pull(pull.log_sum[...], pull.shift[...], pull.cotangent[...], None)

    def look(j: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        at = pl.ds(j * layout.columns, layout.columns)
        columns = load(refs.keys, at)
        planes = [None if x is None else x[:, at] for x in (refs.plane, pull.plane)]
        _, ds = probability_and_pull(layout, rows, columns, inverse, planes, mine)
        values = [x for x in (columns.main, columns.score) if x is not None]
        return tuple(old + weighted(ds, x) for old, x in zip(sums, values, strict=True))

    start = tuple(jnp.zeros(x.shape, jnp.float32) for x in out_refs)
    sums = jax.lax.fori_loop(bounds[0][0], bounds[1][0], look, start)
    for ref, x, scale in zip(out_refs, sums, (inverse, layout.scale), strict=False):
        ref[...] = x * scale


def _pull_keys(layout: Layout, refs: Problem, pull: Pull, bounds: Any, *out_refs: Any) -> None:
    columns, inverse = load(refs.keys, slice(None)), refs.inverse[0]

    def look(i: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        at = pl.ds(i * layout.rows, layout.rows)
        rows = load(refs.rows, at)
        planes = [None if x is None else x[at, :] for x in (refs.plane, pull.plane)]
        mine = Pull(pull.log_sum[at], pull.shift[at], pull.cotangent[at, :], None)
        p, ds = probability_and_pull(layout, rows, columns, inverse, planes, mine)
        main = sums[0] + gathered(ds * inverse, rows.main) + gathered(p, mine.cotangent)
        if rows.score is None:
            return (main,)
        return main, sums[1] + gathered(ds * layout.scale, rows.score)

    start = tuple(jnp.zeros(x.shape, jnp.float32) for x in out_refs)
    sums = jax.lax.fori_loop(bounds[0][0], bounds[1][0], look, start)
    for ref, x in zip(out_refs, sums, strict=True):
        ref[...] = x
