"""The Triton kernels of a diagonal that all heads share: sums over heads, tile by tile.

Once every head's normaliser is known, the sum of probabilities over heads meets the context in one
product of width D for all heads, which is a plain matrix product and left to XLA.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

from cem_jax.ops.kernels.pallas_gpu_backward import probability_and_pull
from cem_jax.ops.kernels.pallas_gpu_layout import Layout, Problem, Pull
from cem_jax.ops.kernels.pallas_gpu_scores import load_head, masked_logits
from cem_jax.ops.kernels.pallas_gpu_specs import by_pair_of_tiles, plane, run


def summed_probability(
    layout: Layout, problem: Problem, pull: Pull, dtype: Any
) -> Float[Array, "B R S"]:
    """sum_h p_hij, in the dtype of the context that it will meet.

    Args:
        layout: what is static.
        problem: queries, keys, temperature and diagonal scores.
        pull: its ``log_sum`` alone.
        dtype: of the result.
    """
    kernel = functools.partial(_summed_probability, layout)
    return _planes("summed_probability", kernel, layout, problem, pull, 1, dtype)[0]


def summed_pull(layout: Layout, problem: Problem, pull: Pull, dtype: Any) -> list[Array]:
    """sum_h p_hij, and sum_h ds_hij / tau, each ``[B, R, S]``, in the dtype of the context."""
    kernel = functools.partial(_summed_pull, layout)
    return list(_planes("summed_pull", kernel, layout, problem, pull, 2, dtype))


def _planes(
    name: str, kernel: Any, layout: Layout, problem: Problem, pull: Pull, count: int, dtype: Any
) -> Any:
    batch, strip = problem.rows.main.shape[:2]
    grid = by_pair_of_tiles(layout, problem)
    shape = jax.ShapeDtypeStruct((batch, strip, problem.keys.main.shape[1]), dtype)
    return run(name, kernel, layout, grid, problem, pull, [(shape, plane(grid))] * count)


def _summed_probability(
    layout: Layout, refs: Problem, pull: Pull, bounds: Any, out_ref: Any
) -> None:
    inverse, diagonal = refs.inverse[0], refs.plane[...]

    def look(h: Array, total: Array) -> Array:
        rows = load_head(refs.rows, h)
        columns = load_head(refs.keys, jax.lax.div(h, np.int32(layout.group)))
        logits = masked_logits(layout, rows, columns, inverse, diagonal)
        return total + jnp.exp(logits - pull.log_sum[h, :][:, None])

    start = jnp.zeros(out_ref.shape, jnp.float32)
    total = jax.lax.fori_loop(np.int32(0), _heads_to_see(bounds, refs), look, start)
    out_ref[...] = total.astype(out_ref.dtype)


def _summed_pull(
    layout: Layout, refs: Problem, pull: Pull, bounds: Any, p_ref: Any, ds_ref: Any
) -> None:
    inverse, planes = refs.inverse[0], (refs.plane[...], pull.plane[...])

    def look(h: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        rows = load_head(refs.rows, h)
        columns = load_head(refs.keys, jax.lax.div(h, np.int32(layout.group)))
        mine = Pull(pull.log_sum[h, :], pull.shift[h, :], pull.cotangent[:, h, :], None)
        p, ds = probability_and_pull(layout, rows, columns, inverse, planes, mine)
        return sums[0] + p, sums[1] + ds

    start = jnp.zeros(p_ref.shape, jnp.float32), jnp.zeros(ds_ref.shape, jnp.float32)
    p, ds = jax.lax.fori_loop(np.int32(0), _heads_to_see(bounds, refs), look, start)
    p_ref[...] = p.astype(p_ref.dtype)
    ds_ref[...] = (ds * inverse).astype(ds_ref.dtype)


def _heads_to_see(bounds: Any, refs: Problem) -> Array:
    """How many heads to go through: none where no query of the tile sees any of these keys."""
    j, heads = pl.program_id(1), refs.rows.main.shape[1]
    return jnp.where((bounds[0][0] <= j) & (j < bounds[1][0]), np.int32(heads), np.int32(0))
