"""Which block of each operand a kernel sees, for the three grids that the Triton kernels run on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from cem_jax.ops.kernels.pallas_gpu_layout import Layout, Problem, Pull, Side, reach, reached

Place = Callable[..., tuple[Any, Any, Any]]
"""Maps the indices of a grid to batch, tile and head."""


class Grid(NamedTuple):
    """How work is cut.

    Attributes:
        size: of the grid.
        rows: queries in a block, and where it lies.
        keys: keys in a block, and where it lies.
        heads: queries' and keys' heads in a block; None is one, whose axis is dropped.
        bounds: the range of tiles to go through, ``[B, tiles]`` each; those that are seen.
        bounded: where a block finds its range.
    """

    size: tuple[int, int, int]
    rows: tuple[int, Place]
    keys: tuple[int, Place]
    heads: tuple[int | None, int | None]
    bounds: tuple[Any, Any]
    bounded: Place


def by_row_tile(layout: Layout, problem: Problem) -> Grid:
    """One tile of queries of one head; all keys."""
    batch, strip, heads, _ = problem.rows.main.shape

    def own(i: Any, b: Any, h: Any) -> tuple[Any, Any, Any]:
        return b, i, h

    def of_group(i: Any, b: Any, h: Any) -> tuple[Any, Any, Any]:
        return b, 0, jax.lax.div(h, np.int32(layout.group))

    return Grid(
        size=(strip // layout.rows, batch, heads),
        rows=(layout.rows, own),
        keys=(problem.keys.main.shape[1], of_group),
        heads=(None, None),
        bounds=reach(*_sites(layout, problem)),
        bounded=own,
    )


def by_key_tile(layout: Layout, problem: Problem) -> Grid:
    """One tile of keys for one head; all queries of the strip."""
    batch, strip, heads, _ = problem.rows.main.shape

    def whole(j: Any, b: Any, h: Any) -> tuple[Any, Any, Any]:
        return b, 0, h

    def of_group(j: Any, b: Any, h: Any) -> tuple[Any, Any, Any]:
        return b, j, jax.lax.div(h, np.int32(layout.group))

    return Grid(
        size=(problem.keys.main.shape[1] // layout.columns, batch, heads),
        rows=(strip, whole),
        keys=(layout.columns, of_group),
        heads=(None, None),
        bounds=reached(*_sites(layout, problem)),
        bounded=of_group,
    )


def by_pair_of_tiles(layout: Layout, problem: Problem) -> Grid:
    """One tile of queries and one of keys, of all heads."""
    batch, strip, heads, _ = problem.rows.main.shape
    columns, groups = problem.keys.main.shape[1:3]

    def row(i: Any, j: Any, b: Any) -> tuple[Any, Any, Any]:
        return b, i, 0

    def column(i: Any, j: Any, b: Any) -> tuple[Any, Any, Any]:
        return b, j, 0

    return Grid(
        size=(strip // layout.rows, columns // layout.columns, batch),
        rows=(layout.rows, row),
        keys=(layout.columns, column),
        heads=(heads, groups),
        bounds=reach(*_sites(layout, problem)),
        bounded=row,
    )


def _sites(layout: Layout, problem: Problem) -> tuple[Any, ...]:
    return layout.visible, problem.rows.sites, problem.keys.sites, (layout.rows, layout.columns)


def run(
    name: str,
    kernel: Callable[..., None],
    layout: Layout,
    grid: Grid,
    problem: Problem,
    pull: Pull | None,
    outputs: Any,
) -> Any:
    """Run a kernel over a grid.

    Args:
        name: of the kernel, for profiles.
        kernel: takes the blocks of ``problem``, ``pull`` and ``grid.bounds``, and those of the
            outputs, to be written.
        layout: what is static.
        grid: how the work is cut.
        problem: queries, keys, temperature and diagonal scores.
        pull: what comes back to the queries, in a backward pass.
        outputs: pairs of a shape and dtype, and one of the `spec`s here.
    """
    read = _problem_specs(grid, problem), _pull_specs(grid, pull), (_bound(grid), _bound(grid))
    return pl.pallas_call(
        kernel,
        grid=grid.size,
        in_specs=read,
        out_specs=tuple(spec for _, spec in outputs),
        out_shape=tuple(shape for shape, _ in outputs),
        interpret=layout.interpret,
        compiler_params=triton.CompilerParams(num_warps=layout.warps, num_stages=2),
        name=name,
    )(problem, pull, grid.bounds)


def row_heads(grid: Grid, width: int) -> pl.BlockSpec:
    """The block of ``[B, R, H, N]`` that belongs to the queries."""
    return _heads(grid.rows, grid.heads[0], width)


def key_heads(place: Place, size: int, width: int) -> pl.BlockSpec:
    """The block of ``[B, S, H, N]`` that belongs to the keys, for every head of the queries."""
    return _heads((size, place), None, width)


def vector(grid: Grid) -> pl.BlockSpec:
    """The block of ``[B, H, R]`` that belongs to the queries."""
    size, place = grid.rows

    def at(*ids: Any) -> tuple[Any, Any, Any]:
        batch, tile, head = place(*ids)
        return batch, head, tile

    return pl.BlockSpec((None, grid.heads[0], size), at)


def plane(grid: Grid) -> pl.BlockSpec:
    """The block of ``[B, R, S]`` that belongs to both."""
    (rows, row), (keys, key) = grid.rows, grid.keys
    return pl.BlockSpec((None, rows, keys), lambda *ids: (*row(*ids)[:2], key(*ids)[1]))


def _heads(cut: tuple[int, Place], heads: int | None, width: int) -> pl.BlockSpec:
    size, place = cut
    return pl.BlockSpec((None, size, heads, width), lambda *ids: (*place(*ids), 0))


def _side(side: Side, cut: tuple[int, Place], heads: int | None) -> Side:
    size, place = cut
    sites = pl.BlockSpec((None, size), lambda *ids: place(*ids)[:2])
    main = _heads(cut, heads, side.main.shape[-1])
    score = None if side.score is None else _heads(cut, heads, side.score.shape[-1])
    return Side(main, score, jax.tree.map(lambda _: sites, side.sites))


def _problem_specs(grid: Grid, problem: Problem) -> Problem:
    return Problem(
        rows=_side(problem.rows, grid.rows, grid.heads[0]),
        keys=_side(problem.keys, grid.keys, grid.heads[1]),
        inverse=pl.BlockSpec((1,), lambda *ids: (0,)),
        plane=None if problem.plane is None else plane(grid),
    )


def _pull_specs(grid: Grid, pull: Pull | None) -> Pull | None:
    if pull is None:
        return None
    return Pull(
        log_sum=vector(grid),
        shift=None if pull.shift is None else vector(grid),
        cotangent=None if pull.cotangent is None else row_heads(grid, pull.cotangent.shape[-1]),
        plane=None if pull.plane is None else plane(grid),
    )


def _bound(grid: Grid) -> pl.BlockSpec:
    return pl.BlockSpec((None, 1), lambda *ids: grid.bounded(*ids)[:2])
