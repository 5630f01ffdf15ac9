"""The norm's gain."""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from cem_jax.ops.checks import require_positive
from cem_jax.ops.norms import rms_norm
from cem_jax.ops.parameters import parameter


class RMSNorm(nnx.Module):
    """`ops.norms.rms_norm` with a learned gain.

    Args:
        dim: D.
        eps: added to the mean square; positive.

    Parameters: ``gain [D]``, one at the start.
    """

    def __init__(self, dim: int, eps: float) -> None:
        require_positive("norm_eps", eps)
        self.eps = eps
        self.gain = parameter(jnp.ones((dim,)), "D")

    def __call__(self, x: Float[Array, "B L D"]) -> Float[Array, "B L D"]:
        """The normed input."""
        return rms_norm(x, self.gain[...], self.eps)
