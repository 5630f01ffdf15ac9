"""Queries and keys cut into tiles, so that no array of their pairs is ever whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from cem_jax.ops.attention_terms import Attended, AttentionTerms
from cem_jax.ops.pieces import cut, join
from cem_jax.ops.visibility import Sites, Visible

QUERY_SIDE = ("query", "weight", "context_query")
KEY_SIDE = ("key", "context", "context_key")
COMMON = ("temperature", "bias")

Operands = dict[str, Array]

_ROWS, _COLUMNS = 128, 128
"""Positions in a tile of queries and in a block of keys."""


class Tile(NamedTuple):
    """Some neighbouring positions of one side.

    Attributes:
        operands: the fields of `AttentionTerms` of this side.
        sites: where the positions stand.
        tangents: in a derivative, those of the operands that move.
        log_sum: in a derivative, ``[B, H, q]`` of the queries.
    """

    operands: Operands
    sites: Sites
    tangents: Operands
    log_sum: Any = None


def pick(terms: AttentionTerms | Operands, names: tuple[str, ...]) -> Operands:
    """The named operands that are there."""
    fields = terms if isinstance(terms, dict) else terms._asdict()
    return {name: fields[name] for name in names if fields.get(name) is not None}


def query_tiles(
    terms: AttentionTerms, sites: Sites, tangents: Operands, log_sum: Array | None = None
) -> Tile:
    """All tiles of the queries, stacked; what fills up the last is padding, which sees nothing."""
    size = max(1, min(_ROWS, sites.position.shape[1]))
    tiles = Tile(pick(terms, QUERY_SIDE), sites, pick(tangents, QUERY_SIDE))
    sums = None if log_sum is None else cut(log_sum, size, 2)
    return jax.tree.map(lambda x: cut(x, size), tiles)._replace(log_sum=sums)


def key_blocks(terms: AttentionTerms, sites: Sites, tangents: Operands) -> Tile:
    """All blocks of the keys, stacked; what fills up the last is padding, which nobody sees."""
    size = max(1, min(_COLUMNS, sites.position.shape[1]))
    tiles = Tile(pick(terms, KEY_SIDE), sites, pick(tangents, KEY_SIDE))
    return jax.tree.map(lambda x: cut(x, size), tiles)


def over_blocks(
    visible: Visible,
    rows: Tile,
    blocks: Any,
    start: Any,
    look: Callable[[Any, Any, Array], tuple[Any, Any]],
) -> tuple[Any, Any]:
    """Scan ``look`` over the blocks of keys; one of which no row of the tile sees any is skipped.

    Args:
        visible: the rule of visibility.
        rows: a tile of queries.
        blocks: what is scanned: a stacked `Tile` of keys first, and anything beside it.
        start: the first carry.
        look: maps a carry, a block and the mask ``[B, 1, q, k]`` to the next carry and what is
            kept of the block.

    Returns:
        The last carry, and what was kept, stacked; zeros of a skipped block.
    """

    def body(carry: Any, block: Any) -> tuple[Any, Any]:
        allowed = visible.allowed(rows.sites, block[0].sites)[:, None]
        kept = jax.eval_shape(look, carry, block, allowed)[1]

        def skip(carry: Any, block: Any, allowed: Array) -> tuple[Any, Any]:
            return carry, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), kept)

        return jax.lax.cond(jnp.any(allowed), look, skip, carry, block, allowed)

    return jax.lax.scan(body, start, blocks)


def joined(found: Attended, length: int, one_diagonal: bool) -> Attended:
    """Tiles of queries put together again, heads after positions."""
    log_sum, readout, mean = found
    if mean is not None:
        mean = join(mean, length) if one_diagonal else jnp.swapaxes(join(mean, length, 2), 1, 2)
    return Attended(join(log_sum, length, 2), jnp.swapaxes(join(readout, length, 2), 1, 2), mean)
