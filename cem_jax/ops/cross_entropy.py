"""Token cross-entropy."""

from __future__ import annotations

import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int


def cross_entropy(
    logits: Float[Array, "B L V"], targets: Int[Array, "B L"], mask: Bool[Array, "B L"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Summed nats and the number of tokens, over the positions of the mask.

    sum_i m_i (log sum_v exp(l_iv) - l_i,target); the caller divides, once, so that batches,
    micro-batches and hosts weigh tokens and not rows.

    Args:
        logits: ``[B, L, V]``, any floating dtype; the sum is in float32 or wider.
        targets: ``[B, L]``, in [0, V) where the mask is true, anything elsewhere.
        mask: ``[B, L]``, true where the target counts.

    Returns:
        Nats ``[]`` and tokens ``[]``.

    Raises:
        ValueError: for shapes that do not fit.
    """
    for name, value in (("targets", targets), ("mask", mask)):
        if value.shape != logits.shape[:-1]:
            raise ValueError(
                f"{name}: got shape {value.shape} for logits of shape {logits.shape}, expected "
                f"{logits.shape[:-1]}; give one per position."
            )
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    # Not a product with the mask: zero times what a masked target such as -100 gives is NaN.
    nats = optax.softmax_cross_entropy_with_integer_labels(wide, jnp.where(mask, targets, 0))
    return jnp.sum(jnp.where(mask, nats, 0)), jnp.sum(mask, dtype=wide.dtype)
