"""Counts against formulas by hand."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from cem_jax import (
    CEMMLP,
    CEMAttention,
    CEMLayer,
    DescentConfig,
    ElementwiseConfig,
    InteractionConfig,
    MemoryConfig,
    PreconditionerConfig,
    TransformerConfig,
)
from cem_jax.models.cost import (
    count_flops,
    count_forward_flops,
    count_module_parameters,
    count_parameters,
)

B, L, D, F, R = 2, 24, 32, 40, 3
TOKENS = B * L


def shape():
    return jax.ShapeDtypeStruct((B, L, D), jnp.float32)


def flops(build):
    graph, state = nnx.split(nnx.eval_shape(lambda: build(nnx.Rngs(0))))
    return count_flops(lambda state, h: nnx.merge(graph, state)(h), state, shape())


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize(("diagonal", "products"), [("none", 2), ("shared", 4), ("head", 10)])
def test_attention_projects_one_plus_twice_t_times_and_scores_t_times(steps, diagonal, products):
    # Per step and pair of positions: a score and a readout of width D (no diagonal), another of
    # each of width D in common (shared), or another of each of width D per head (H = 4).
    config = InteractionConfig(4, diagonal=diagonal)
    counted = flops(lambda rngs: CEMAttention(D, config, DescentConfig(steps), rngs=rngs))
    assert counted == 2 * TOKENS * D * D * (1 + 2 * steps) + steps * products * 2 * B * L * L * D


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_mlp_gates_once_and_projects_twice_a_step(steps):
    config = ElementwiseConfig(F)
    counted = flops(lambda rngs: CEMMLP(D, config, DescentConfig(steps), rngs=rngs))
    assert counted == 2 * TOKENS * D * F * (1 + 2 * steps)


def test_a_preconditioner_adds_four_thin_products_a_step():
    def build(rngs, preconditioner):
        descent = DescentConfig(2, preconditioner=preconditioner)
        return CEMMLP(D, ElementwiseConfig(F), descent, rngs=rngs)

    extra = flops(lambda rngs: build(rngs, PreconditionerConfig(R))) - flops(
        lambda rngs: build(rngs, None)
    )
    assert extra == 2 * 4 * 2 * TOKENS * D * R


def test_an_energy_without_formulas_is_counted_as_it_is():
    def build(rngs):
        return CEMLayer(D, MemoryConfig(7), DescentConfig(2), rngs=rngs)

    assert flops(build) == 2 * 2 * 2 * TOKENS * D * 7
    assert count_module_parameters(build) == D * 7 + D + 1  # patterns, gain, eta


def test_flops_equal_the_compiled_counts_of_an_unrolled_product():
    def two(a, b):
        return (a @ b) @ b

    a = jnp.ones((16, 16))
    compiled = jax.jit(two).lower(a, a).compile().cost_analysis()["flops"]
    assert count_flops(two, a, a) == compiled == 2 * 2 * 16**3


def test_llama_at_the_paper_scale():
    config = TransformerConfig.paper("llama")
    count = count_parameters(config)
    block = 4 * 768**2 + 3 * 768 * 2048 + 2 * 768
    assert count.without_embedding == 12 * block + 768
    assert count.embedding == 2 * 50_257 * 768
    assert round(count.without_embedding / 1e6, 1) == 85.0
    assert round(count.total / 1e6, 1) == 162.1


def test_forward_flops_of_a_llama():
    config = TransformerConfig.tiny("llama")
    per_layer = 2 * TOKENS * (4 * 128**2 + 3 * 128 * 344) + 4 * B * L * L * 128
    readout = 2 * TOKENS * 128 * 2048
    assert count_forward_flops(config, batch=B, length=L) == 4 * per_layer + readout


def test_a_product_in_a_loop_of_unknown_length_is_refused():
    def loop(a):
        return jax.lax.while_loop(lambda a: a.sum() < 1, lambda a: a @ a, a)

    with pytest.raises(ValueError, match="while loop"):
        count_flops(loop, jnp.ones((4, 4)))


def test_of_conditional_branches_the_dearest_counts():
    def branch(a):
        return jax.lax.cond(a.sum() > 0, lambda a: a @ a @ a, lambda a: a @ a, a)

    assert count_flops(branch, jnp.ones((4, 4))) == 2 * 2 * 4**3
