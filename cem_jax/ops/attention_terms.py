"""What a masked log-sum-exp energy is made of, and its logits."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from cem_jax.ops.dtypes import accumulation_dtype
from cem_jax.ops.visibility import Sites, Visible, distances


class AttentionTerms(NamedTuple):
    """The operands of equations (2), (4), (5) and (5b); an absent term is None.

    Attributes:
        query: ``q [B, L, H, K]``, R_i Wq_h u_i.
        key: ``k [B, S, G, K]``, R_j Wk_h c_j; heads share a key in groups of H / G.
        temperature: ``tau``, ``[]``, or ``[H]``; positive.
        weight: ``w``, ``[B, L, D]`` (one diagonal for all heads) or ``[B, L, H, D]``: d * u.
        context: ``c [B, S, D]``, needed with ``weight``.
        bias: ``b [H, W]``, added to the logit at distance min(position_i - position_j, W - 1).
        context_query: ``[B, L, H, C]``, of the context alone, with ``context_key``.
        context_key: ``[B, S, G, C]``.
    """

    query: Float[Array, "B L H K"]
    key: Float[Array, "B S G K"]
    temperature: Float[Array, "*H"]
    weight: Float[Array, "B L *H D"] | None = None
    context: Float[Array, "B S D"] | None = None
    bias: Float[Array, "H W"] | None = None
    context_query: Float[Array, "B L H C"] | None = None
    context_key: Float[Array, "B S G C"] | None = None

    def axes(self) -> AttentionTerms:
        """The names of the axes of each operand, in its place."""
        names: dict[str, Any] = {
            "query": "B L H K",
            "key": "B S G K",
            "temperature": "H" if jnp.ndim(self.temperature) else "",
            "weight": "B L D" if shared(self) else "B L H D",
            "context": "B S D",
            "bias": "H W",
            "context_query": "B L H C",
            "context_key": "B S G C",
        }
        return AttentionTerms(
            **{name: axes for name, axes in names.items() if getattr(self, name) is not None}
        )


class Attended(NamedTuple):
    """What a pass over the keys gives each query; all zero in a row that sees nothing.

    Attributes:
        log_sum: ``log sum_j exp(logit_hij)``, float32 or wider.
        readout: ``o = sum_j p_hj k_j``.
        mean: ``m = sum_j p_hj c_j`` of each head, or summed over heads where one diagonal serves
            all; None without a diagonal.
    """

    log_sum: Float[Array, "B H L"]
    readout: Float[Array, "B L H K"]
    mean: Float[Array, "B L *H D"] | None = None


def energy_of(terms: AttentionTerms, log_sum: Float[Array, "B H L"]) -> Float[Array, "B L"]:
    """-sum_h tau_h log_sum_h; equation (2)."""
    temperature = jnp.atleast_1d(terms.temperature).astype(log_sum.dtype)
    return -jnp.sum(temperature[None, :, None] * log_sum, axis=1)


def shared(terms: AttentionTerms) -> bool:
    """Whether one diagonal serves all heads."""
    return terms.weight is not None and terms.weight.ndim == 3


def group_heads(query: Float[Array, "B L H K"], groups: int) -> Float[Array, "B L G E K"]:
    """Heads as ``G`` groups of ``E = H / G`` that share a key."""
    batch, length, heads, width = query.shape
    return query.reshape(batch, length, groups, heads // groups, width)


def grouped_scores(query: Array, key: Array) -> Float[Array, "B H L S"]:
    """q_hi . k_gj for every head, summed in float32 or wider."""
    wide = accumulation_dtype(query)
    grouped = group_heads(query, key.shape[2])
    scores = jnp.einsum("blgek,bsgk->bgels", grouped, key, preferred_element_type=wide)
    return scores.reshape(query.shape[0], query.shape[2], query.shape[1], key.shape[1])


def head_sums(p: Float[Array, "B H L S"], values: Array) -> Float[Array, "B H L N"]:
    """sum_j p_hij v_j for values of groups of heads, ``[B, S, G, N]``, or of all, ``[B, S, N]``.

    Probabilities meet the values in the values' own dtype, as fused attention does; summed in
    that of ``p``.
    """
    narrow = p.astype(values.dtype)
    if values.ndim == 3:
        return jnp.einsum("bhls,bsn->bhln", narrow, values, preferred_element_type=p.dtype)
    batch, heads, length, keys = p.shape
    groups = values.shape[2]
    grouped = narrow.reshape(batch, groups, heads // groups, length, keys)
    sums = jnp.einsum("bgels,bsgn->bgeln", grouped, values, preferred_element_type=p.dtype)
    return sums.reshape(batch, heads, length, values.shape[3])


def relative_bias(
    table: Float[Array, "H W"], query_sites: Sites, key_sites: Sites
) -> Float[Array, "B H L S"]:
    """b_h[min(position_i - position_j, W - 1)] of every pair; what is ahead has distance 0."""
    distance = jnp.clip(distances(query_sites, key_sites), 0, table.shape[1] - 1)
    return jnp.moveaxis(table[:, distance], 0, 1)


def logits(terms: AttentionTerms, query_sites: Sites, key_sites: Sites) -> Float[Array, "B H L S"]:
    """S / tau + b[distance] + context score, unmasked; s = q . k + w . c."""
    scores = grouped_scores(terms.query, terms.key)
    wide = scores.dtype
    if terms.weight is not None:
        pattern = "bld,bsd->bls" if shared(terms) else "blhd,bsd->bhls"
        diagonal = jnp.einsum(pattern, terms.weight, terms.context, preferred_element_type=wide)
        scores = scores + (diagonal[:, None] if shared(terms) else diagonal)
    temperature = jnp.atleast_1d(terms.temperature).astype(wide)[None, :, None, None]
    result = scores / temperature
    if terms.bias is not None:
        result = result + relative_bias(terms.bias.astype(wide), query_sites, key_sites)
    if terms.context_query is not None and terms.context_key is not None:
        scale = terms.context_query.shape[-1] ** -0.5
        result = result + scale * grouped_scores(terms.context_query, terms.context_key)
    return result


def masked_logits(
    terms: AttentionTerms, query_sites: Sites, key_sites: Sites, visible: Visible
) -> tuple[Float[Array, "B H L S"], Bool[Array, "B 1 L 1"]]:
    """Logits with -inf where nothing may be seen, and whether a row sees anything at all.

    A row that sees nothing gets finite logits: its log-sum-exp would be -inf with a NaN
    derivative, and the caller replaces its result by zero anyway.
    """
    allowed = visible.allowed(query_sites, key_sites)[:, None]
    row = jnp.any(allowed, axis=-1, keepdims=True)
    hidden = jnp.where(row, -jnp.inf, 0.0)
    all_logits = logits(terms, query_sites, key_sites)
    return jnp.where(allowed, all_logits, hidden.astype(all_logits.dtype)), row
