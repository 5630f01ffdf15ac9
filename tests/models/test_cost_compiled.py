"""Counts against what the compiler reports of small models."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from cem_jax import PreconditionerConfig, Recipe, Transformer, TransformerConfig
from cem_jax.models.cost import count_cost
from cem_jax.models.cost.activations import kept_bytes
from cem_jax.models.transformer import STRAIGHT
from cem_jax.ops.readout import readout_cross_entropy
from cem_jax.ops.visibility import Sites

B, L = (
    2,
    64,
)  # enough that what depends on parameters alone, such as factors of P side by side, is small
RECIPES = {
    "llama": ("llama", None),
    "cem-plain": ("cem", Recipe(2, "none", None)),
    "cem": ("cem", Recipe(2, "shared", PreconditionerConfig(8))),
    "looped": ("llama", None),
    "cem-recomputed": ("cem", Recipe(2, "shared", PreconditionerConfig(8), remat="full")),
}


def tiny(name, **options):
    family, recipe = RECIPES[name]
    config = TransformerConfig.tiny(family, recipe, vocab_size=256)
    options = {"loops": 2 if name == "looped" else 1} | options
    return dataclasses.replace(config, **{"layers": 2, **options})


def abstract(config):
    return nnx.split(nnx.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0))))


def compiled(function, state):
    tokens = jax.ShapeDtypeStruct((B, L), jnp.int32)
    return jax.jit(function).lower(state, tokens).compile()


def unrolled(config):
    """The model without a loop, whose body the compiler would count once; T steps are unrolled."""
    graph, state = abstract(config)

    def hidden(state, tokens):
        model = nnx.merge(graph, state)
        block, stack = nnx.split(model.blocks)
        h = model.embedding[...][tokens]
        for i in (*range(config.layers),) * config.loops:
            h = nnx.merge(block, jax.tree.map(lambda x, i=i: x[i], stack))(h, Sites.dense(B, L))
        return model, model.norm(h)

    def logits(state, tokens):
        model, h = hidden(state, tokens)
        return model.logits(h)

    def loss(state, tokens):
        model, h = hidden(state, tokens)
        return readout_cross_entropy(h, model.embedding[...], tokens, tokens >= 0, chunk=L)[0]

    return logits, jax.grad(loss), state


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "looped", "cem-plain", "cem"])
def test_flops_are_those_that_the_compiler_counts_but_for_element_wise_work(name):
    # A number that a product of width 128 made has cost 256; what norms, softmax, gates and
    # rotations add is a few per number. A projection of the four or five of a layer is 6 %.
    config = tiny(name)
    logits, step, state = unrolled(config)
    cost = count_cost(config, batch=B, length=L).total
    forward = compiled(logits, state).cost_analysis()["flops"]
    training = compiled(step, state).cost_analysis()["flops"]
    assert 1 < forward / cost.forward_flops < 1.03
    assert 1 < training / cost.training_flops < 1.03


def temporary_bytes(config):
    graph, state = abstract(config)

    def loss(state, tokens):
        return nnx.merge(graph, state).cross_entropy(tokens, tokens, tokens >= 0)[0]

    return compiled(jax.grad(loss), state).memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize(
    ("name", "above"),
    # Of the library's attention the compiler finds some arrays to be equal.
    [
        ("cem", 1.01),
        pytest.param("cem-plain", 1.01, marks=pytest.mark.slow),
        pytest.param("cem-recomputed", 1.01, marks=pytest.mark.slow),
        ("llama", 1.2),
    ],
)
def test_activations_are_what_each_further_layer_adds_to_a_training_step(name, above):
    # Of a scan: in straight code layers share what the compiler overwrites.
    deep = (STRAIGHT + 1, STRAIGHT + 3)
    few, more = (temporary_bytes(tiny(name, layers=layers)) for layers in deep)
    cost = count_cost(tiny(name), batch=B, length=L)
    assert 0.99 < 2 * (cost.attention + cost.mlp).activation_bytes / (more - few) < above


def test_activations_of_a_function_by_hand():
    def function(weight, h):
        narrow = (h @ weight).astype(jnp.bfloat16)
        return jnp.sin(narrow).astype(h.dtype) + (h * h) @ (weight * weight)

    # In float32 h, twice needed, and h * h; in bfloat16 the cosine. Of the weights nothing.
    h = jax.ShapeDtypeStruct((B, L, 6), jnp.float32)
    weight = jax.ShapeDtypeStruct((6, 10), jnp.float32)
    assert kept_bytes(function, weight, h) == B * L * (2 * 4 * 6 + 2 * 10)
