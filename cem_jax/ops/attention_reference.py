"""The reference backend: whole ``[B, H, L, S]`` logits, differentiable to any order."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cem_jax.ops.attention_terms import (
    Attended,
    AttentionTerms,
    energy_of,
    head_sums,
    masked_logits,
    shared,
)
from cem_jax.ops.visibility import Sites, Visible


def energy(
    terms: AttentionTerms, query_sites: Sites, key_sites: Sites, visible: Visible
) -> Float[Array, "B L"]:
    """-sum_h tau_h log sum_j exp(logit_hij), with no custom rule under it."""
    masked, row = masked_logits(terms, query_sites, key_sites, visible)
    log_sum = jnp.where(row[..., 0], jax.nn.logsumexp(masked, axis=-1), 0.0)
    return energy_of(terms, log_sum)


def attended(visible: Visible, terms: AttentionTerms, query: Sites, key: Sites) -> Attended:
    """Log-sum-exp, readout and mean of every query, by JAX's own derivatives."""
    masked, row = masked_logits(terms, query, key, visible)
    log_sum = jnp.where(row[..., 0], jax.nn.logsumexp(masked, axis=-1), 0.0)
    # An empty row's probabilities are uniform here; what they read is replaced, which costs less
    # memory than to replace them.
    probability = jax.nn.softmax(masked, axis=-1)

    def read(p: Array, values: Array) -> Array:
        return jnp.swapaxes(jnp.where(row, head_sums(p, values), 0.0), 1, 2)

    readout = read(probability, terms.key)
    if terms.weight is None or terms.context is None:
        return Attended(log_sum, readout)
    if shared(terms):
        summed = jnp.sum(probability, axis=1, keepdims=True)
        return Attended(log_sum, readout, read(summed, terms.context)[:, :, 0])
    return Attended(log_sum, readout, read(probability, terms.context))
