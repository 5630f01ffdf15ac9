"""Root-mean-square normalisation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cem_jax.ops.dtypes import accumulation_dtype


def rms_norm(x: Float[Array, "B L D"], gain: Float[Array, "D"], eps: float) -> Array:
    """``gain * x / sqrt(mean_D(x^2) + eps)``, over the last axis only; the norm of (1).

    Args:
        x: ``[B, L, D]``. The statistics are taken in float32 or wider.
        gain: ``[D]``.
        eps: added to the mean square; positive.

    Returns:
        ``[B, L, D]`` in the dtype of ``x``.

    Source: Zhang and Sennrich, arXiv 1910.07467.
    """
    wide = x.astype(accumulation_dtype(x))
    mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    normed = wide * jax.lax.rsqrt(mean_square + eps)
    return (normed * gain.astype(wide.dtype)[None, None]).astype(x.dtype)
