"""Temporary memory of a training step, from the compiled program."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from cem_jax import PreconditionerConfig, Recipe, Transformer, TransformerConfig

B, L = 2, 64


def temporary_arrays(family, steps):
    """In units of one float32 ``[B, L, D]``."""
    recipe = Recipe(steps, "none", PreconditionerConfig(4), remat="full")
    config = TransformerConfig.tiny(family, recipe, vocab_size=64)
    config = dataclasses.replace(config, layers=2)
    graph, state = nnx.split(nnx.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0))))
    tokens = jax.ShapeDtypeStruct((B, L), jnp.int32)

    def loss(state, tokens):
        return jnp.sum(jnp.square(nnx.merge(graph, state)(tokens)))

    compiled = jax.jit(jax.grad(loss)).lower(state, tokens).compile()
    return compiled.memory_analysis().temp_size_in_bytes / (4 * B * L * config.dim)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["cem-attention", "cem-mlp"])
def test_with_remat_each_further_step_costs_its_carry_alone(family):
    # From T = 3 on: what a step recomputes is held once, and the scan is one already.
    assert (temporary_arrays(family, 6) - temporary_arrays(family, 3)) / 3 <= 1.1
