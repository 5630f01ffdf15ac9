"""Cross-entropy straight from the hidden states, so that B x L x V logits are never held whole."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float, Int

from cem_jax.ops.checks import require_count
from cem_jax.ops.constrain import by_parts
from cem_jax.ops.contract import contract
from cem_jax.ops.dtypes import accumulation_dtype
from cem_jax.ops.pieces import cut, join

CHUNK = 32
"""Positions whose logits are held at a time."""


def readout_cross_entropy(
    hidden: Float[Array, "B L D"],
    matrix: Float[Array, "V D"],
    targets: Int[Array, "B L"],
    mask: Bool[Array, "B L"],
    *,
    chunk: int = CHUNK,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Summed nats and tokens of the logits ``l_iv = h_i . e_v``, a few positions at a time.

    The derivative is taken along with the value, chunk by chunk, so that no logits are kept or
    computed again: a training step costs the three products that it must. Differentiable to any
    order, in both modes.

    Args:
        hidden: ``[B, L, D]``, in the dtype of the products.
        matrix: ``[V, D]``, likewise.
        targets: ``[B, L]``, in [0, V) where the mask is true, anything elsewhere.
        mask: ``[B, L]``, true where the target counts.
        chunk: how many positions of each row at a time, at least 1.

    Returns:
        Nats ``[]`` and tokens ``[]``, float32 or wider.

    Raises:
        ValueError: for shapes that do not fit.
    """
    _check(hidden, matrix, targets, mask, chunk)
    tokens = jnp.sum(mask, dtype=accumulation_dtype(hidden))
    axes = ("B L D", "V D", "B L", "B L")
    nats = by_parts(functools.partial(_nats, chunk), axes, "", over="B L")
    return nats(hidden, matrix, targets, mask), tokens


def readout_nats(
    hidden: Float[Array, "B L D"],
    matrix: Float[Array, "V D"],
    targets: Int[Array, "B L"],
    mask: Bool[Array, "B L"],
    *,
    chunk: int = CHUNK,
) -> Float[Array, "B L"]:
    """The nats of each position, zero where the mask is false; see `readout_cross_entropy`."""
    _check(hidden, matrix, targets, mask, chunk)

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def one(piece: _Piece) -> Array:
        logits = _logits(piece.hidden, matrix)
        return jnp.where(piece.mask, _log_sum(logits) - _picked(logits, piece.targets), 0)

    pieces = _cut(_Piece(hidden, targets, mask), chunk)
    return join(lax.map(one, pieces), hidden.shape[1])


class _Piece(NamedTuple):
    """Some positions of every row."""

    hidden: Array
    targets: Array
    mask: Array


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _nats(chunk: int, hidden: Array, matrix: Array, targets: Array, mask: Array) -> Array:
    return jnp.sum(readout_nats(hidden, matrix, targets, mask, chunk=chunk))


@functools.partial(_nats.defjvp, symbolic_zeros=True)
def _nats_rule(chunk: int, primals: Any, tangents: Any) -> tuple[Array, Array]:
    hidden, matrix, targets, mask = primals
    value, slopes = _nats_and_slopes(chunk, hidden, matrix, targets, mask)
    change = [
        jnp.sum(slope * tangent.astype(slope.dtype))
        for slope, tangent in zip(slopes, tangents[:2], strict=True)
        if not isinstance(tangent, SymbolicZero)
    ]
    return value, sum(change, jnp.zeros_like(value))


def _nats_and_slopes(
    chunk: int, hidden: Array, matrix: Array, targets: Array, mask: Array
) -> tuple[Array, tuple[Array, Array]]:
    """The sum, and its derivatives by ``hidden`` and ``matrix``: dl = softmax(l) - onehot."""
    wide = accumulation_dtype(hidden)

    def one(carry: tuple[Array, Array], piece: _Piece) -> tuple[tuple[Array, Array], Array]:
        nats, by_matrix = carry
        logits = _logits(piece.hidden, matrix)
        log_sum = _log_sum(logits)
        nats += jnp.sum(jnp.where(piece.mask, log_sum - _picked(logits, piece.targets), 0))
        hit = lax.broadcasted_iota(jnp.int32, logits.shape, 2) == piece.targets[..., None]
        slope = jnp.where(piece.mask[..., None], jnp.exp(logits - log_sum[..., None]) - hit, 0)
        slope = slope.astype(piece.hidden.dtype)
        by_matrix += contract(piece.hidden, slope, 2, x_end="front").astype(wide)
        return (nats, by_matrix), contract(slope, matrix)

    zero = jnp.zeros((), wide), jnp.zeros(matrix.shape[::-1], wide)
    (nats, by_matrix), by_hidden = lax.scan(one, zero, _cut(_Piece(hidden, targets, mask), chunk))
    return nats, (join(by_hidden, hidden.shape[1]), by_matrix.T)


def _logits(hidden: Array, matrix: Array) -> Array:
    logits = contract(hidden, matrix, y_end="back")
    return logits.astype(accumulation_dtype(logits))


def _log_sum(logits: Array) -> Array:
    return jax.nn.logsumexp(logits, axis=-1)


def _picked(logits: Array, targets: Array) -> Array:
    # A masked target may be anything, -100 for one.
    inside = jnp.clip(targets, 0, logits.shape[-1] - 1)
    return jnp.take_along_axis(logits, inside[..., None], axis=-1)[..., 0]


def _cut(piece: _Piece, size: int) -> _Piece:
    """All pieces, stacked; what fills up the last is masked."""
    size = max(1, min(size, piece.mask.shape[1]))
    return jax.tree.map(lambda x: cut(x, size), piece)


def _check(hidden: Array, matrix: Array, targets: Array, mask: Array, chunk: int) -> None:
    require_count("chunk", chunk)
    if hidden.ndim != 3 or matrix.ndim != 2 or hidden.shape[-1] != matrix.shape[-1]:
        raise ValueError(
            f"hidden, matrix: got shapes {hidden.shape} and {matrix.shape}, expected [B, L, D] and "
            f"[V, D]."
        )
    for name, value in (("targets", targets), ("mask", mask)):
        if value.shape != hidden.shape[:-1]:
            raise ValueError(
                f"{name}: got shape {value.shape} for hidden states of shape {hidden.shape}, "
                f"expected {hidden.shape[:-1]}; give one per position."
            )
