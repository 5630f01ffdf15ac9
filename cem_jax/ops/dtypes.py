"""The dtype in which sums are kept."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array


def accumulation_dtype(x: Array) -> jnp.dtype:
    """Float32, or wider where ``x`` is wider: scores, log-sum-exp, energies and the carried x."""
    return jnp.promote_types(x.dtype, jnp.float32)


def require_floating(name: str, dtype: Any) -> None:
    """Refuse what is not the name of a floating dtype."""
    try:
        floating = jnp.issubdtype(jnp.dtype(dtype), jnp.floating)
    except TypeError:
        floating = False
    if not floating:
        raise ValueError(
            f"{name}: got {dtype!r}, expected a floating dtype; use 'float32' or 'bfloat16'."
        )


def require_hidden(name: str, h: Array, dim: int) -> None:
    """Refuse anything but a floating ``[B, L, D]`` array with ``D == dim`` at a public entry."""
    shape = getattr(h, "shape", None)
    if shape is None or len(shape) != 3 or shape[-1] != dim:
        got = type(h).__name__ if shape is None else f"shape {tuple(shape)}"
        raise ValueError(
            f"{name}: got {got}, expected a floating array [B, L, D] with D = {dim}; "
            f"add the missing axis (x[None]) or build the layer with dim = D."
        )
    if not jnp.issubdtype(h.dtype, jnp.floating):
        raise ValueError(
            f"{name}: got dtype {h.dtype}, expected a floating dtype; embed tokens first, or "
            f"cast with x.astype(jnp.float32)."
        )
