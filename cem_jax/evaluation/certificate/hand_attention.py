"""Multi-head attention with W_V = W_K and W_O = W_Q^T, written by hand; equations (2) to (5b).

Nothing of the energy's own code is used: other rotary embedding, mask, softmax and readout.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from cem_jax.energies import InteractionConfig
from cem_jax.evaluation.certificate.hand import HandEnergy, HandForm, Parameters
from cem_jax.evaluation.certificate.hand_rotary import turn, turns
from cem_jax.ops.visibility import Sites, Visible


def hand_attention(config: InteractionConfig) -> HandForm:
    """-grad = sum_h [Wq_h^T R_i^T sum_j p_hij R_j Wk_h c_j + d_h * sum_j p_hij c_j].

    The rotated keys are the values and the readout is turned back by the conjugate rotation.
    p_hij = softmax_j(s_hij / tau + b_h[i - j] + c'_hij) over the visible j.

    Args:
        config: the options of the energy.

    Returns:
        A form on the parameters of `InteractionEnergy`.
    """

    def form(parameters: Parameters, c: Array, sites: Sites) -> HandEnergy:
        # Head h reads the key of its group: the grouped weight, written out for every head.
        group = jnp.arange(config.heads) // (config.heads // (config.key_heads or config.heads))
        wq, wk = parameters["wq"], parameters["wk"][:, group]
        angle = turns(sites.position, wq.shape[-1], config.rotary, c.dtype)
        key = turn(jnp.einsum("bsd,dhk->bshk", c, wk), angle)
        mask = _visible(sites, config.visible)[:, None]
        offset = _offset(config, parameters, c, sites, group)
        tau = _temperature(config, parameters, wq.shape[-1])
        diagonal = _diagonal(config, parameters, c)

        def logits(u: Array) -> Array:
            query = turn(jnp.einsum("bld,dhk->blhk", u, wq), angle)
            score = jnp.einsum("blhk,bshk->bhls", query, key)
            score += jnp.einsum("bld,hd,bsd->bhls", u, diagonal, c)
            return score / tau + offset

        def value(u: Array) -> Array:
            return -tau * jnp.sum(_masked_softmax(logits(u), mask)[1], axis=1)

        def update(u: Array) -> Array:
            weight = _masked_softmax(logits(u), mask)[0]
            back = turn(jnp.einsum("bhls,bshk->blhk", weight, key), -angle)
            mean = jnp.einsum("bhls,bsd->blhd", weight, c)
            read = jnp.einsum("blhk,dhk->bld", back, wq)
            return read + jnp.einsum("blhd,hd->bld", mean, diagonal)

        return HandEnergy(value, update)

    return form


def _masked_softmax(
    logits: Float[Array, "B H L S"], mask: Bool[Array, "B 1 L S"]
) -> tuple[Float[Array, "B H L S"], Float[Array, "B H L"]]:
    """Probabilities over the visible keys and the log of their normaliser; zeros in empty rows."""
    seen = jnp.any(mask, axis=-1, keepdims=True)
    top = jnp.max(jnp.where(mask, logits, -jnp.inf), axis=-1, keepdims=True)
    # The result does not depend on this shift, so neither does its derivative.
    top = jax.lax.stop_gradient(jnp.where(seen, top, 0.0))
    raised = jnp.where(mask, jnp.exp(jnp.where(mask, logits - top, 0.0)), 0.0)
    total = jnp.where(seen, jnp.sum(raised, axis=-1, keepdims=True), 1.0)
    normaliser = jnp.where(seen, top + jnp.log(total), 0.0)
    return raised / total, normaliser[..., 0]


def _visible(sites: Sites, rule: Visible) -> Bool[Array, "B L S"]:
    """Same document, neither of them padding, not in the future, not beyond the window."""
    i, j = sites.position[:, :, None], sites.position[:, None, :]
    own, other = sites.segment[:, :, None], sites.segment[:, None, :]
    mask = (own == other) & (own > 0) & (other > 0) | (not rule.packed)
    if rule.causal:
        mask = mask & (j <= i)
    if rule.window is not None:
        mask = mask & (j > i - rule.window) & (j < i + rule.window)
    return mask


def _temperature(config: InteractionConfig, parameters: Parameters, width: int) -> Array | float:
    if config.learn_temperature:
        return jnp.exp(parameters["log_temperature"])
    return math.sqrt(width) if config.temperature is None else config.temperature


def _diagonal(config: InteractionConfig, parameters: Parameters, c: Array) -> Float[Array, "H D"]:
    """d_h for every head: zero, its own, or the shared one."""
    if config.diagonal == "none":
        return jnp.zeros((config.heads, c.shape[-1]), c.dtype)
    d = parameters["d"]
    return d if config.diagonal == "head" else jnp.stack([d] * config.heads)


def _offset(
    config: InteractionConfig, parameters: Parameters, c: Array, sites: Sites, group: Array
) -> Float[Array, "B H L S"]:
    """What (5b) adds to the logits: a bias by distance and a score of the context alone."""
    batch, length = sites.position.shape
    total = jnp.zeros((batch, config.heads, length, length), c.dtype)
    if config.relative_bias is not None:
        table = parameters["bias"]["table"]
        distance = sites.position[:, :, None] - sites.position[:, None, :]
        for step in range(config.relative_bias):
            last = step == config.relative_bias - 1
            here = distance >= step if last else distance == step
            total += here[:, None].astype(c.dtype) * table[None, :, step, None, None]
    if config.context_score is not None:
        wq, wk = parameters["score"]["wq"], parameters["score"]["wk"][:, group]
        angle = turns(sites.position, wq.shape[-1], config.context_score.rotary, c.dtype)
        query = turn(jnp.einsum("bsd,dhk->bshk", c, wq), angle)
        key = turn(jnp.einsum("bsd,dhk->bshk", c, wk), angle)
        total += jnp.einsum("blhk,bshk->bhls", query, key) / math.sqrt(wq.shape[-1])
    return total
