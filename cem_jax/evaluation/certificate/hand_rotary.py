"""Rotary position embedding by complex numbers, independent of `ops.rotary`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from cem_jax.ops.rotary import Rotary


def turns(
    position: Int[Array, "B S"], width: int, rotary: Rotary, dtype: jnp.dtype
) -> Float[Array, "B S pairs"]:
    """The angle of every pair of columns, position * base^(-2k / n), n the rotated columns."""
    rotated = 2 * round(rotary.fraction * width / 2)
    exponents = [-2.0 * pair / max(rotated, 1) for pair in range(rotated // 2)]
    frequency = jnp.asarray([rotary.base**exponent for exponent in exponents], dtype)
    return position.astype(dtype)[:, :, None] * frequency[None, None, :]


def turn(x: Float[Array, "B S H K"], angle: Float[Array, "B S pairs"]) -> Array:
    """Columns k and k + pairs as real and imaginary part, times exp(i angle); R_i of (4)."""
    pairs = angle.shape[-1]
    number = jax.lax.complex(x[..., :pairs], x[..., pairs : 2 * pairs])
    number = number * jax.lax.complex(jnp.cos(angle), jnp.sin(angle))[:, :, None, :]
    return jnp.concatenate([number.real, number.imag, x[..., 2 * pairs :]], axis=-1)
