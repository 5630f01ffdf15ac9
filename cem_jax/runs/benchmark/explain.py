"""Which attention backend a model computes with, why, and what the others say."""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx

from cem_jax.energies import InteractionConfig
from cem_jax.evaluation.hand_written import HandWrittenConfig
from cem_jax.models import CEMConfig, TransformerConfig
from cem_jax.ops.attention_backend import choose, survey
from cem_jax.ops.attention_terms import AttentionTerms
from cem_jax.ops.visibility import Sites
from cem_jax.runs.benchmark.shape import Shape


def explain(config: TransformerConfig, shape: Shape) -> list[str]:
    """Lines: the backend of the attention sublayer and why; then each backend's own word.

    Nothing is computed: the operands are looked at in the abstract, on this machine's platform.

    Args:
        config: the model.
        shape: of the batch.
    """
    sublayer: Any = config.attention
    if isinstance(sublayer, HandWrittenConfig):
        return ["written by hand: whole logits"]
    if not isinstance(sublayer, CEMConfig) or not isinstance(sublayer.energy, InteractionConfig):
        return [f"{type(sublayer).__name__}: no attention energy, so no backend"]
    energy = sublayer.energy
    terms, sites = _operands(config, energy, shape)
    operands = energy.visible, terms, sites, sites
    choice = choose(energy.backend, *operands)
    lines = [f"{choice.backend} ({energy.backend!r} in the config): {choice.reason}"]
    for found in survey(*operands):
        word = "can" if found.refusal is None else f"cannot: {found.refusal}"
        asked = "; never run on its hardware, so only by name" if found.never_run else ""
        lines.append(f"{found.backend:<10} {word}{asked}")
    return lines


def _operands(
    config: TransformerConfig, energy: InteractionConfig, shape: Shape
) -> tuple[AttentionTerms, Sites]:
    """Shapes and dtypes of the operands."""

    def build(u: jax.Array) -> tuple[AttentionTerms, Sites]:
        module = energy.build(config.dim, rngs=nnx.Rngs(0))
        sites = Sites.dense(shape.batch, shape.length)
        return module.terms(u, module.condition(u, sites)), sites

    u = jax.ShapeDtypeStruct((shape.batch, shape.length, config.dim), config.dtype)
    return jax.eval_shape(build, u)
