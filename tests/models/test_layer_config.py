"""What a layer's config carries reaches the layer."""

import dataclasses

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from cem_jax import CEMConfig, EnergyOf, MemoryConfig, MemoryEnergy, Transformer, TransformerConfig


def logits(transformation):
    config = TransformerConfig.tiny("cem-mlp", vocab_size=16)
    mlp = dataclasses.replace(config.mlp, transformation=transformation)
    model = Transformer(dataclasses.replace(config, layers=1, mlp=mlp), rngs=nnx.Rngs(0))
    return jax.jit(lambda tokens: model(tokens))(jnp.arange(6)[None])


def test_an_inner_rule_reaches_the_layers_of_a_transformer():
    plain = logits(None)
    assert jnp.array_equal(logits(optax.identity()), plain)
    assert jnp.max(jnp.abs(logits(optax.clip_by_global_norm(1e-3)) - plain)) > 1e-2


class Eight(MemoryEnergy):
    """An energy without options."""

    def __init__(self, dim, *, rngs):
        super().__init__(dim, MemoryConfig(8), rngs=rngs)


def test_an_energy_class_is_a_config_of_its_own():
    options = {"norm_eps": 1e-5, "dtype": "float32"}
    h = jax.random.normal(jax.random.key(0), (1, 3, 16))
    wrapped = CEMConfig(EnergyOf(Eight)).build(16, rngs=nnx.Rngs(0), **options)
    config = CEMConfig(MemoryConfig(8)).build(16, rngs=nnx.Rngs(0), **options)
    assert jnp.array_equal(wrapped(h), config(h))
