"""The blockwise backend: tiles of queries against blocks of keys, in linear memory.

Pure JAX, for any platform. The softmax runs from block to block of keys, and a derivative computes
again what it needs of it. Blocks that nobody sees are skipped: causal work is half of the whole.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from cem_jax.ops.attention_tangent import moving, tangent
from cem_jax.ops.attention_terms import Attended, AttentionTerms, head_sums, logits, shared
from cem_jax.ops.attention_tiles import (
    COMMON,
    Tile,
    joined,
    key_blocks,
    over_blocks,
    pick,
    query_tiles,
)
from cem_jax.ops.visibility import Sites, Visible


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def attended(visible: Visible, terms: AttentionTerms, query: Sites, key: Sites) -> Attended:
    """Log-sum-exp, readout and mean of every query; differentiable to any order, in both modes.

    Args:
        visible: the rule of visibility, static.
        terms: queries, keys and the optional terms.
        query: ``[B, L]`` positions and segments of the queries.
        key: ``[B, S]`` those of the keys.
    """
    blocks, common = key_blocks(terms, key, {}), pick(terms, COMMON)
    look = _shared_tile if shared(terms) else _tile

    # Opaque: JAX 0.10 moves what is constant over the inner steps out of their scan, and that would
    # be the masks of all tiles.
    @functools.partial(jax.checkpoint, prevent_cse=False)
    def tile(rows: Tile) -> Attended:
        return look(visible, common, blocks, rows)

    rows = query_tiles(terms, query, {})
    _, found = jax.lax.scan(lambda _, rows: (None, tile(rows)), None, rows)
    return joined(found, query.position.shape[1], shared(terms))


@functools.partial(attended.defjvp, symbolic_zeros=True)
def _rule(visible: Visible, primals: Any, tangents: Any) -> tuple[Attended, Attended]:
    terms, query, key = primals
    found = attended(visible, terms, query, key)
    return found, tangent(visible, terms, query, key, found, moving(tangents[0]))


def _tile(visible: Visible, common: dict[str, Array], blocks: Tile, rows: Tile) -> Attended:
    """One tile of queries; every head has a mean of its own, if any."""

    def values(block: Tile) -> list[Array]:
        return [block.operands[name] for name in ("key", "context") if name in block.operands]

    def look(carry: Any, block: tuple[Tile], allowed: Array) -> tuple[Any, None]:
        masked = _masked(common, rows, block[0], allowed)
        return _raised(carry, masked, values(block[0]))[:3], None

    start = _start(rows, values(blocks))
    (peak, total, sums), _ = over_blocks(visible, rows, (blocks,), start, look)
    log_sum, means = _normalised(peak, total, sums)
    return Attended(log_sum, *means)


def _shared_tile(visible: Visible, common: dict[str, Array], blocks: Tile, rows: Tile) -> Attended:
    """One tile of queries whose heads share a mean: it needs every head's final normaliser."""

    def look(carry: Any, block: tuple[Tile], allowed: Array) -> tuple[Any, tuple[Array, Array]]:
        masked = _masked(common, rows, block[0], allowed)
        peak, total, sums, raised = _raised(carry, masked, [block[0].operands["key"]])
        return (peak, total, sums), (raised, peak)

    start = _start(rows, [blocks.operands["key"]])
    (peak, total, sums), kept = over_blocks(visible, rows, (blocks,), start, look)
    log_sum, (readout,) = _normalised(peak, total, sums)

    def again(mean: Array, block: tuple[Tile, Any], allowed: Array) -> tuple[Array, None]:
        raised, level = block[1]
        # From the peak so far, to which the exponents were raised, to the normaliser of the row.
        factor = jnp.where(jnp.isfinite(level), jnp.exp(level - log_sum), 0)
        summed = jnp.sum(raised * factor[..., None], axis=1, keepdims=True)
        return mean + head_sums(summed, block[0].operands["context"])[:, 0], None

    still = jnp.zeros(rows.operands["weight"].shape, readout.dtype)
    mean, _ = over_blocks(visible, rows, (blocks, kept), still, again)
    return Attended(log_sum, readout, mean)


def _masked(common: dict[str, Array], rows: Tile, block: Tile, allowed: Array) -> Array:
    terms = AttentionTerms(**rows.operands, **block.operands, **common)
    return jnp.where(allowed, logits(terms, rows.sites, block.sites), -jnp.inf)


def _start(rows: Tile, values: list[Array]) -> tuple[Array, Array, list[Array]]:
    batch, length, heads, _ = rows.operands["query"].shape
    wide = jnp.promote_types(rows.operands["query"].dtype, jnp.float32)
    peak = jnp.full((batch, heads, length), -jnp.inf, wide)
    sums = [jnp.zeros((*peak.shape, value.shape[-1]), wide) for value in values]
    return peak, jnp.zeros_like(peak), sums


def _raised(
    carry: Any, masked: Array, values: list[Array]
) -> tuple[Array, Array, list[Array], Array]:
    """The running softmax after one more block: peak, total, sums of values; its exponentials."""
    peak, total, sums = carry
    higher = jnp.maximum(peak, jnp.max(masked, axis=-1))
    # A row that has seen nothing yet has no peak; its exponents stay -inf.
    level = jnp.where(jnp.isfinite(higher), higher, 0)
    shrink = jnp.exp(peak - level)
    raised = jnp.exp(masked - level[..., None])
    sums = [
        shrink[..., None] * old + head_sums(raised, value)
        for old, value in zip(sums, values, strict=True)
    ]
    return higher, shrink * total + jnp.sum(raised, axis=-1), sums, raised


def _normalised(peak: Array, total: Array, sums: list[Array]) -> tuple[Array, list[Array]]:
    """Log-sum-exp and means; zero in a row that saw nothing."""
    row = total > 0
    safe = jnp.where(row, total, 1)
    log_sum = jnp.where(row, peak + jnp.log(safe), 0)
    return log_sum, [x / safe[..., None] for x in sums]
