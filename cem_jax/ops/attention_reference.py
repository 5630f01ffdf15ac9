"""The reference backend: whole ``[B, H, L, S]`` logits, differentiable to any order."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cem_jax.ops.attention_terms import AttentionTerms, masked_logits, shared
from cem_jax.ops.visibility import Sites, Visible


def energy(
    terms: AttentionTerms, query_sites: Sites, key_sites: Sites, visible: Visible
) -> Float[Array, "B L"]:
    """-sum_h tau_h log sum_j exp(logit_hij), with no custom rule under it."""
    masked, row = masked_logits(terms, query_sites, key_sites, visible)
    total = jnp.where(row[..., 0], jax.nn.logsumexp(masked, axis=-1), 0.0)
    temperature = jnp.atleast_1d(terms.temperature).astype(total.dtype)
    return -jnp.sum(temperature[None, :, None] * total, axis=1)


def attend(
    terms: AttentionTerms, query_sites: Sites, key_sites: Sites, visible: Visible
) -> tuple[Float[Array, "B L H K"], Float[Array, "B L *H D"] | None]:
    """The readout ``o = sum_j p_hj k_j`` and, with a diagonal, ``m = sum_j p_hj c_j``.

    With a shared diagonal ``m`` is summed over heads, ``[B, L, D]``. Both are zero in a row that
    sees nothing. ``-(o, m)`` is the derivative of `energy` in ``(q, w)``.
    """
    masked, row = masked_logits(terms, query_sites, key_sites, visible)
    probability = jnp.where(row, jax.nn.softmax(masked, axis=-1), 0.0)
    wide = probability.dtype
    batch, heads, length, keys = probability.shape
    groups = terms.key.shape[2]
    # Probabilities meet the keys in the keys' own dtype, as fused attention does.
    narrow = probability.astype(terms.key.dtype)
    grouped = narrow.reshape(batch, groups, heads // groups, length, keys)
    readout = jnp.einsum("bgels,bsgk->blgek", grouped, terms.key, preferred_element_type=wide)
    readout = readout.reshape(batch, length, heads, terms.key.shape[3])
    if terms.weight is None:
        return readout, None
    if shared(terms):
        summed = jnp.sum(probability, axis=1).astype(terms.key.dtype)
        mean = jnp.einsum("bls,bsd->bld", summed, terms.context, preferred_element_type=wide)
    else:
        # Swapped afterwards: XLA has no bfloat16 product on CPU that writes the axes as "blhd".
        mean = jnp.einsum("bhls,bsd->bhld", narrow, terms.context, preferred_element_type=wide)
        mean = jnp.swapaxes(mean, 1, 2)
    return readout, mean
