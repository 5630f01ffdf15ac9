"""How log-sum-exp, readout and mean move with their operands, block by block.

    d lse_i = sum_j p_ij dz_ij,    d o_i = sum_j p_ij ((dz_ij - d lse_i) k_j + dk_j),

for logits z, and likewise for the mean. Linear in what moves, so that JAX transposes it; its
transpose is the backward pass of fused attention, with the probabilities computed again.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array

from cem_jax.ops.attention_terms import Attended, AttentionTerms, head_sums, logits, shared
from cem_jax.ops.attention_tiles import (
    COMMON,
    Operands,
    Tile,
    joined,
    key_blocks,
    over_blocks,
    pick,
    query_tiles,
)
from cem_jax.ops.visibility import Sites, Visible


def moving(tangents: AttentionTerms) -> Operands:
    """The operands that move, by name, of tangents with symbolic zeros."""
    return {
        name: value
        for name, value in tangents._asdict().items()
        if value is not None and not isinstance(value, SymbolicZero)
    }


def tangent(
    visible: Visible,
    terms: AttentionTerms,
    query: Sites,
    key: Sites,
    found: Attended,
    change: Operands,
) -> Attended:
    """The tangent of ``found = attended(visible, terms, query, key)``.

    Args:
        visible: the rule of visibility, static.
        terms: queries, keys and the optional terms.
        query: ``[B, L]`` positions and segments of the queries.
        key: ``[B, S]`` those of the keys.
        found: log-sum-exp, readout and mean of these.
        change: the tangents of the operands that move, by name; at least one.
    """
    blocks = key_blocks(terms, key, change)
    common = pick(terms, COMMON), pick(change, COMMON)
    look = _shared_tile if shared(terms) else _tile

    # What a tile computes on its way is computed again in the transpose.
    @functools.partial(jax.checkpoint, prevent_cse=False)
    def tile(rows: Tile) -> Attended:
        return look(visible, common, blocks, rows)

    rows = query_tiles(terms, query, change, found.log_sum)
    _, moved = jax.lax.scan(lambda _, rows: (None, tile(rows)), None, rows)
    return _centred(joined(moved, query.position.shape[1], shared(terms)), found, shared(terms))


def cotangents(
    visible: Visible,
    terms: AttentionTerms,
    query: Sites,
    key: Sites,
    found: Attended,
    cotangent: Attended,
    names: tuple[str, ...],
) -> Operands:
    """The transpose of `tangent`: what moves each named operand, block by block.

    Args:
        visible: the rule of visibility, static.
        terms: queries, keys and the optional terms.
        query: ``[B, L]`` positions and segments of the queries.
        key: ``[B, S]`` those of the keys.
        found: log-sum-exp, readout and mean of these.
        cotangent: theirs.
        names: of the operands.
    """

    def along(change: Operands) -> Attended:
        return tangent(visible, terms, query, key, found, change)

    still = {name: getattr(terms, name) for name in names}
    return jax.linear_transpose(along, still)(cotangent)[0]


Common = tuple[Operands, Operands]


def _tile(visible: Visible, common: Common, blocks: Tile, rows: Tile) -> Attended:
    """One tile of queries, not yet centred; nothing of a block is kept for its transpose."""

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def look(carry: Any, block: tuple[Tile], allowed: Array) -> tuple[Any, None]:
        log_sum, sums = carry
        p = _probability(common, rows, block[0], allowed)
        dp = p * _logit_change(common, rows, block[0])
        sums = {name: old + _moved_sums(p, dp, block[0], name) for name, old in sums.items()}
        return (log_sum + jnp.sum(dp, axis=-1), sums), None

    names = [name for name in ("key", "context") if name in blocks.operands]
    start = _start(rows, {name: blocks.operands[name].shape[-1] for name in names})
    (log_sum, sums), _ = over_blocks(visible, rows, (blocks,), start, look)
    return Attended(log_sum, sums["key"], sums.get("context"))


def _shared_tile(visible: Visible, common: Common, blocks: Tile, rows: Tile) -> Attended:
    """One tile whose heads share a mean: whole rows of p are kept until d lse is known.

    Of what moves, only sums over heads are kept, so that the transpose, too, reads p alone.
    """

    def probability(_: None, block: tuple[Tile], allowed: Array) -> tuple[None, Array]:
        return None, _probability(common, rows, block[0], allowed)

    _, kept = over_blocks(visible, rows, (blocks,), None, probability)

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def look(carry: Any, block: tuple[Tile, Array], allowed: Array) -> tuple[Any, Array]:
        log_sum, readout = carry
        dp = block[1] * _logit_change(common, rows, block[0])
        readout += _moved_sums(block[1], dp, block[0], "key")
        return (log_sum + jnp.sum(dp, axis=-1), readout), jnp.sum(dp, axis=1, keepdims=True)

    log_sum, sums = _start(rows, {"key": blocks.operands["key"].shape[-1]})
    start = log_sum, sums["key"]
    (log_sum, readout), summed = over_blocks(visible, rows, (blocks, kept), start, look)

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def again(mean: Array, block: tuple[Tile, Array, Array], allowed: Array) -> tuple[Array, None]:
        _, p, dp = block
        dp -= jnp.sum(p * log_sum[..., None], axis=1, keepdims=True)
        p = jnp.sum(p, axis=1, keepdims=True)
        return mean + _moved_sums(p, dp, block[0], "context")[:, 0], None

    still = jnp.zeros(rows.operands["weight"].shape, log_sum.dtype)
    mean, _ = over_blocks(visible, rows, (blocks, kept, summed), still, again)
    return Attended(log_sum, readout, mean)


def _probability(common: Common, rows: Tile, block: Tile, allowed: Array) -> Array:
    """p_hij = exp(z_hij - lse_hi)."""
    terms = AttentionTerms(**rows.operands, **block.operands, **common[0])
    # Hidden before the exponential: an infinite one would have a NaN derivative.
    hidden = jnp.where(allowed, logits(terms, rows.sites, block.sites), -jnp.inf)
    return jnp.exp(hidden - rows.log_sum[..., None])


def _logit_change(common: Common, rows: Tile, block: Tile) -> Array:
    """dz_hij, also of pairs that are hidden."""
    operands = rows.operands | block.operands | common[0]
    change = rows.tangents | block.tangents | common[1]

    def z(moving: Operands) -> Array:
        return logits(AttentionTerms(**(operands | moving)), rows.sites, block.sites)

    return jax.jvp(z, ({name: operands[name] for name in change},), (change,))[1]


def _moved_sums(p: Array, dp: Array, block: Tile, name: str) -> Array:
    """sum_j dp_ij v_j + p_ij dv_j for the values of that name."""
    moved = head_sums(dp, block.operands[name])
    if name in block.tangents:
        moved += head_sums(p, block.tangents[name])
    return moved


def _start(rows: Tile, widths: dict[str, int]) -> tuple[Array, dict[str, Array]]:
    zero = jnp.zeros_like(rows.log_sum)
    return zero, {name: jnp.zeros((*zero.shape, n), zero.dtype) for name, n in widths.items()}


def _centred(moved: Attended, found: Attended, one_diagonal: bool) -> Attended:
    """Take d lse_i o_i from the sums, where a tile has not done so."""
    shift = jnp.swapaxes(moved.log_sum, 1, 2)[..., None]
    readout, mean = moved.readout - shift * found.readout, moved.mean
    if mean is not None and found.mean is not None and not one_diagonal:
        mean -= shift * found.mean
    return Attended(moved.log_sum, readout, mean)
