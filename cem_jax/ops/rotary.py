"""Rotary position embedding."""

from __future__ import annotations

import dataclasses
import numbers

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from cem_jax.ops.checks import require_positive


@dataclasses.dataclass(frozen=True)
class Rotary:
    """How heads are rotated, R_i of equation (4).

    Attributes:
        fraction: the share of the head width that is rotated, from the front, in [0, 1]; zero
            leaves heads as they are.
        base: the base of the wave lengths, positive.
    """

    fraction: float = 1.0
    base: float = 10_000.0

    def __post_init__(self) -> None:
        if not isinstance(self.fraction, numbers.Real) or not 0.0 <= self.fraction <= 1.0:
            raise ValueError(
                f"rotary fraction: got {self.fraction!r}, expected 0 <= fraction <= 1; it is the "
                f"share of a head that turns."
            )
        require_positive("rotary base", self.base)

    def width(self, head_dim: int) -> int:
        """The number of rotated columns of a head; even."""
        width = round(self.fraction * head_dim)
        if width % 2:
            raise ValueError(
                f"rotary width: got {width} columns (fraction {self.fraction} of head width "
                f"{head_dim}), expected an even number; choose another fraction or head width."
            )
        return width


def rotation(
    position: Int[Array, "B S"], head_dim: int, rotary: Rotary, dtype: jnp.dtype
) -> tuple[Array, Array] | None:
    """Cosine and sine of every position, each ``[B, S, width / 2]``; None where nothing turns.

    Column ``k`` of the rotated half turns by ``position * base^(-2k / width)``.
    """
    width = rotary.width(head_dim)
    if width == 0:
        return None
    wide = jnp.promote_types(dtype, jnp.float32)
    frequency = rotary.base ** (-jnp.arange(0, width, 2, dtype=wide) / width)
    angle = position.astype(wide)[:, :, None] * frequency[None, None]
    return jnp.cos(angle), jnp.sin(angle)


def rotate(
    x: Float[Array, "B S H K"], table: tuple[Array, Array] | None
) -> Float[Array, "B S H K"]:
    """R_i applied to every head of every position: column k is paired with column k + width / 2.

    Args:
        x: ``[B, S, H, K]``.
        table: what `rotation` gave for these positions; None is the identity.

    Returns:
        ``[B, S, H, K]`` in the dtype of ``x``. The rotation is orthogonal: its transpose, which
        the gradient of (4) applies, turns back.

    Source: Su et al., arXiv 2104.09864, in the half-split layout of Llama's public weights.
    """
    if table is None:
        return x
    cos, sin = (t.astype(x.dtype)[:, :, None, :] for t in table)
    half = cos.shape[-1]
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    turned = [first * cos - second * sin, second * cos + first * sin]
    return jnp.concatenate([*turned, rest], axis=-1)
