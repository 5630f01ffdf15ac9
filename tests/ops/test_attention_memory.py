"""The blockwise backend's memory is linear in length, of value, inner and training gradient."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from cem_jax import CEMAttention, DescentConfig, InteractionConfig, Sites, Visible
from cem_jax.ops.attention_energy import attention_energy
from cem_jax.ops.attention_terms import AttentionTerms

HEADS, WIDTH, DIM = 2, 16, 32
SHORT, LONG = 4096, 16384


def operands(length, shared):
    shape = (1, length, HEADS, WIDTH)
    made = AttentionTerms(*(jax.ShapeDtypeStruct(shape, jnp.float32),) * 2, jnp.float32(4.0))
    if not shared:
        return made
    wide = jax.ShapeDtypeStruct((1, length, DIM), jnp.float32)
    return made._replace(weight=wide, context=wide)


def value(terms, backend):
    sites = Sites.dense(1, terms.query.shape[1])
    return jnp.sum(attention_energy(terms, sites, sites, Visible(), backend))


def inner(terms, backend):
    return jax.grad(lambda query: value(terms._replace(query=query), backend))(terms.query)


def training(terms, backend):
    return jax.grad(lambda terms: jnp.sum(jnp.square(inner(terms, backend))))(terms)


def temporary(program, length, shared, backend="blockwise"):
    compiled = jax.jit(lambda terms: program(terms, backend)).lower(operands(length, shared))
    return compiled.compile().memory_analysis().temp_size_in_bytes


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True], ids=["no diagonal", "shared diagonal"])
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(value, marks=pytest.mark.slow),
        pytest.param(inner, marks=pytest.mark.slow),
        training,
    ],
    ids=lambda f: f.__name__,
)
def test_memory_grows_as_the_length(program, shared):
    grown = temporary(program, LONG, shared) / temporary(program, SHORT, shared)
    assert grown <= 1.05 * LONG / SHORT


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True], ids=["no diagonal", "shared diagonal"])
def test_training_takes_a_twentieth_of_the_naive_form(shared):
    assert temporary(training, LONG, shared) <= temporary(training, LONG, shared, "plain") / 20


@pytest.mark.slow
@pytest.mark.parametrize("diagonal", ["none", "shared"])
def test_memory_of_a_layer_of_two_steps_grows_as_the_length(diagonal):
    """Inside the scan of the steps, out of which JAX 0.10 would move the masks of all tiles."""
    config = InteractionConfig(HEADS, diagonal=diagonal, backend="blockwise")
    layer = CEMAttention(DIM, config, DescentConfig(2), rngs=nnx.Rngs(0))
    graph, params = nnx.split(layer)

    def temporary(length):
        def loss(params, h):
            return jnp.sum(jnp.square(nnx.merge(graph, params)(h)))

        h = jax.ShapeDtypeStruct((1, length, DIM), jnp.float32)
        compiled = jax.jit(jax.grad(loss)).lower(params, h).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    assert temporary(LONG) / temporary(SHORT) <= 1.05 * LONG / SHORT
