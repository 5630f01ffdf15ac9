"""How queries and keys lie for the Triton kernels: sides, tiles, and what a tile reaches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from cem_jax.ops.attention_terms import AttentionTerms
from cem_jax.ops.visibility import Sites, Visible

LARGEST_TILE = 64
"""Positions in a tile of narrow operands; wider ones take fewer."""

TILE_BYTES = 2**14
"""What a tile of queries or of keys may take on chip."""

SMALLEST_TILE = 16
"""The least that a matrix unit multiplies."""

STRIP = 256
"""Queries whose shared diagonal scores ``[B, STRIP, S]`` are in memory at a time."""


class Side(NamedTuple):
    """Queries or keys as a kernel takes them; the same fields hold the blocks inside of it.

    Attributes:
        main: ``[B, N, heads, K]``, with K filled up to a power of two.
        score: ``[B, N, heads, C]`` of the context score, likewise; None without.
        sites: ``[B, N]`` positions and segments, int32.
    """

    main: Any
    score: Any
    sites: Sites


class Problem(NamedTuple):
    """What every kernel reads, whole or as blocks.

    Attributes:
        rows: a strip of queries.
        keys: all keys.
        inverse: ``1 / tau``, ``[1]``, float32.
        plane: ``[B, R, S]``, the diagonal scores of the strip, for all heads; None without.
    """

    rows: Side
    keys: Side
    inverse: Any
    plane: Any


class Pull(NamedTuple):
    """What a backward kernel reads besides, of a strip of queries.

    Attributes:
        log_sum: ``[B, H, R]``, found by the forward pass.
        shift: ``[B, H, R]``, what a row's cotangent of p is centred by.
        cotangent: ``[B, R, H, K]`` of the readout, in the dtype of the keys.
        plane: ``[B, R, S]``, the cotangent of the mean times the context; None without a diagonal.
    """

    log_sum: Any
    shift: Any
    cotangent: Any
    plane: Any


class Layout(NamedTuple):
    """What is static about a call.

    Attributes:
        visible: the rule of visibility.
        rows: queries in a tile.
        columns: keys in a tile.
        strip: queries in a strip, a multiple of ``rows``.
        scale: of the context score, ``1 / sqrt(C)``.
        group: heads that share a key.
        warps: of 32 threads each, per tile.
        interpret: whether to run without a GPU, step by step.
    """

    visible: Visible
    rows: int
    columns: int
    strip: int
    scale: float
    group: int
    warps: int
    interpret: bool


def lay_out(visible: Visible, terms: AttentionTerms, interpret: bool) -> Layout:
    """Tile sizes by what a position takes on chip, and strips where a diagonal is shared."""
    length, heads = terms.query.shape[1:3]
    widths = [terms.query.shape[-1]]
    if terms.context_query is not None:
        widths.append(terms.context_query.shape[-1])
    width = sum(map(padded_width, widths))
    tile = _tile(width, terms.query.dtype.itemsize)
    rows = min(tile, padded_width(length))
    whole = round_up(length, rows)
    return Layout(
        visible=visible,
        rows=rows,
        columns=min(tile, padded_width(terms.key.shape[1])),
        strip=whole if terms.weight is None else min(whole, STRIP),
        scale=widths[-1] ** -0.5,
        group=heads // terms.key.shape[2],
        warps=4 if width <= 96 else 8,
        interpret=interpret,
    )


def _tile(width: int, itemsize: int) -> int:
    """Positions in a tile, a power of two."""
    # Products of float32 are unrolled into scalar code: of twice the bytes, and twice as long.
    size = width * itemsize**2 // 2
    tile = LARGEST_TILE
    while tile > SMALLEST_TILE and tile * size > TILE_BYTES:
        tile //= 2
    return tile


def padded_width(width: int) -> int:
    """The next power of two, at least that of a matrix unit."""
    return max(SMALLEST_TILE, 1 << (width - 1).bit_length())


def round_up(count: int, size: int) -> int:
    """The next multiple of ``size``."""
    return -(-count // size) * size


def fill(x: Array, length: int, width: int | None = None) -> Array:
    """Zeros behind the positions, axis 1, and behind the last axis; segment zero is padding."""
    padding = [(0, 0)] * x.ndim
    padding[1] = (0, length - x.shape[1])
    if width is not None:
        padding[-1] = (0, width - x.shape[-1])
    return jnp.pad(x, padding)


def side(main: Array, score: Array | None, sites: Sites, length: int) -> Side:
    """One side, filled up to ``length`` positions and to widths that are powers of two."""

    def wide(x: Array | None) -> Array | None:
        return None if x is None else fill(x, length, padded_width(x.shape[-1]))

    whole = Sites(*(fill(x.astype(jnp.int32), length) for x in sites))
    return Side(wide(main), wide(score), whole)


def reach(
    visible: Visible, rows: Sites, keys: Sites, size: tuple[int, int]
) -> tuple[Int[Array, "B r"], Int[Array, "B r"]]:
    """The first and one past the last tile of keys of which each tile of rows may see something.

    A bound from the ranges of positions and segments in a tile; the mask itself decides.
    """
    seen = _may_see(visible, _ranges(rows, size[0]), _ranges(keys, size[1]))
    return _bounds(seen)


def reached(
    visible: Visible, rows: Sites, keys: Sites, size: tuple[int, int]
) -> tuple[Int[Array, "B c"], Int[Array, "B c"]]:
    """The first and one past the last tile of rows that may see something of each tile of keys."""
    seen = _may_see(visible, _ranges(rows, size[0]), _ranges(keys, size[1]))
    return _bounds(jnp.swapaxes(seen, 1, 2))


_FAR = 2**29


def _ranges(sites: Sites, size: int) -> tuple[Sites, Sites]:
    """The least and greatest position and segment in each tile, padding left out."""
    there = sites.segment != 0

    def extreme(x: Array, reduce: Callable[..., Array], empty: int) -> Array:
        return reduce(jnp.where(there, x, empty).reshape(x.shape[0], -1, size), axis=-1)

    least = Sites(*(extreme(x, jnp.min, _FAR) for x in sites))
    return least, Sites(*(extreme(x, jnp.max, -_FAR) for x in sites))


def _may_see(
    visible: Visible, rows: tuple[Sites, Sites], keys: tuple[Sites, Sites]
) -> Bool[Array, "B r c"]:
    (low, high), (key_low, key_high) = rows, keys

    def pairs(row: Array, key: Array) -> tuple[Array, Array]:
        return row[:, :, None], key[:, None, :]

    first, last = pairs(low.segment, key_high.segment), pairs(high.segment, key_low.segment)
    seen = (first[0] <= first[1]) & (last[0] >= last[1])
    near, far = pairs(low.position, key_high.position), pairs(high.position, key_low.position)
    if visible.causal:
        seen &= far[0] >= far[1]
    if visible.window is not None:
        seen &= (near[0] - near[1] < visible.window) & (far[0] - far[1] > -visible.window)
    return seen


def _bounds(seen: Bool[Array, "B n m"]) -> tuple[Int[Array, "B n"], Int[Array, "B n"]]:
    index = jax.lax.broadcasted_iota(jnp.int32, seen.shape, 2)
    first = jnp.min(jnp.where(seen, index, seen.shape[2]), axis=2)
    last = jnp.max(jnp.where(seen, index + 1, 0), axis=2)
    # Of a tile that sees nothing: an empty range.
    return jnp.minimum(first, last), last
