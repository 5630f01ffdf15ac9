"""The forward Triton kernel: a running softmax over tiles of keys, each loaded once."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

from cem_jax.ops.kernels.pallas_gpu_layout import Layout, Problem
from cem_jax.ops.kernels.pallas_gpu_scores import load, masked_logits, weighted
from cem_jax.ops.kernels.pallas_gpu_specs import by_row_tile, row_heads, run, vector


def attend(
    layout: Layout, problem: Problem
) -> tuple[Float[Array, "B H R"], Float[Array, "B R H K"]]:
    """Log-sum-exp and readout of a strip of queries; zero where a query sees nothing."""
    batch, strip, heads, width = problem.rows.main.shape
    grid = by_row_tile(layout, problem)
    outputs = (
        (jax.ShapeDtypeStruct((batch, heads, strip), jnp.float32), vector(grid)),
        (jax.ShapeDtypeStruct((batch, strip, heads, width), jnp.float32), row_heads(grid, width)),
    )
    kernel = functools.partial(_attend, layout)
    return run("attend", kernel, layout, grid, problem, None, outputs)


def _attend(
    layout: Layout, refs: Problem, _: None, bounds: Any, log_sum_ref: Any, readout_ref: Any
) -> None:
    rows, inverse = load(refs.rows, slice(None)), refs.inverse[0]

    def look(j: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        peak, total, readout = carry
        at = pl.ds(j * layout.columns, layout.columns)
        columns = load(refs.keys, at)
        plane = None if refs.plane is None else refs.plane[:, at]
        logits = masked_logits(layout, rows, columns, inverse, plane)
        higher = jnp.maximum(peak, jnp.max(logits, axis=1))
        # A row that has seen nothing yet has no peak; its exponents stay -inf.
        level = jnp.where(higher > -jnp.inf, higher, 0.0)
        shrink, raised = jnp.exp(peak - level), jnp.exp(logits - level[:, None])
        total = shrink * total + jnp.sum(raised, axis=1)
        return higher, total, shrink[:, None] * readout + weighted(raised, columns.main)

    peak = jnp.full((layout.rows,), -jnp.inf, jnp.float32)
    start = peak, jnp.zeros_like(peak), jnp.zeros(readout_ref.shape, jnp.float32)
    peak, total, readout = jax.lax.fori_loop(bounds[0][0], bounds[1][0], look, start)
    row = total > 0
    safe = jnp.where(row, total, 1.0)
    log_sum_ref[...] = jnp.where(row, peak + jnp.log(safe), 0.0)
    readout_ref[...] = readout / safe[:, None]
