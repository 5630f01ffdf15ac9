"""The hand-written form that layers are timed beside is those layers."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from cem_jax import (
    CEMConfig,
    CEMLayer,
    ContextScoreConfig,
    DescentConfig,
    ElementwiseConfig,
    InteractionConfig,
    MemoryConfig,
    PreconditionerConfig,
    StepSizeConfig,
    Visible,
)
from cem_jax.evaluation.hand_written import HandWritten, HandWrittenConfig
from cem_jax.models.cost import count_flops
from cem_jax.ops.jaxprs import inner_jaxprs
from cem_jax.runs.benchmark.compiled import temporary_bytes

pytestmark = pytest.mark.slow

B, L, D = 2, 5, 8
P = PreconditionerConfig(rank=3)
ENERGIES = {
    "attention": InteractionConfig(2),
    "diagonal": InteractionConfig(4, key_heads=2, diagonal="shared", visible=Visible(window=3)),
    "not packed": InteractionConfig(2, visible=Visible(packed=False)),
    "nonlinear": ElementwiseConfig(12),
    "quadratic": ElementwiseConfig(12, "quadratic", "gelu"),
}
DESCENTS = {
    "one plain step": DescentConfig(1),
    "three steps": DescentConfig(3, preconditioner=P, step_size=StepSizeConfig(0.3, "step")),
    "unrolled": DescentConfig(2, preconditioner=P, unroll=2),
    "remat": DescentConfig(2, remat="full"),
}
PAIRS = [(energy, "three steps") for energy in ENERGIES]
PAIRS += [
    (energy, descent)
    for energy in ("diagonal", "nonlinear")
    for descent in ("one plain step", "unrolled", "remat")
]


def pair(energy, descent, dtype):
    layer = CEMLayer(D, energy, descent, dtype=dtype, rngs=nnx.Rngs(0))
    return cases.randomize(layer, scale=0.3), HandWritten(layer)


def value_and_gradient(module, h, sites, cotangent):
    graph, params = nnx.split(module)

    def inner(params, h):
        out = nnx.merge(graph, params)(h, sites)
        return jnp.sum(out * cotangent), out

    (_, out), gradients = jax.jit(jax.value_and_grad(inner, (0, 1), has_aux=True))(params, h)
    return [out, *jax.tree.leaves(gradients)]


@pytest.mark.parametrize(("energy", "descent"), PAIRS)
def test_output_and_gradients_are_the_layer_s(energy, descent, x64):
    layer, hand = pair(ENERGIES[energy], DESCENTS[descent], "float64")
    h, cotangent = (cases.normal(name, B, L, D) for name in ("h", "cotangent"))
    h, cotangent = (x.astype(jnp.float64) for x in (h, cotangent))
    found, expected = (
        value_and_gradient(module, h, cases.packed(), cotangent) for module in (hand, layer)
    )
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("energy", ENERGIES)
def test_it_computes_in_the_layer_s_dtype(energy):
    layer, hand = pair(ENERGIES[energy], DESCENTS["unrolled"], "bfloat16")
    wide, _ = pair(ENERGIES[energy], DESCENTS["unrolled"], "float32")
    h = cases.normal("h", B, L, D)
    found, expected, other = (jax.jit(module)(h) for module in (hand, layer, wide))
    size = jnp.linalg.norm(expected)
    # Half of a bfloat16's last place: roundings in another order.
    assert jnp.linalg.norm(found - expected) < 4e-3 * size
    assert jnp.linalg.norm(found - other) > 1e-4 * size


def products(jaxpr):
    """The dtypes of the operands of every product."""
    found = set()
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("dot_general", "contract"):
            found |= {operand.aval.dtype.name for operand in equation.invars}
        else:
            found = found.union(*map(products, inner_jaxprs(equation)))
    return found


@pytest.mark.parametrize("energy", ENERGIES)
def test_its_products_are_in_the_layer_s_dtype(energy):
    _, hand = pair(ENERGIES[energy], DESCENTS["one plain step"], "bfloat16")
    assert products(jax.make_jaxpr(hand)(cases.normal("h", B, L, D)).jaxpr) == {"bfloat16"}


@pytest.mark.parametrize("energy", ENERGIES)
def test_it_asks_for_as_many_flops(energy):
    def flops(module):
        graph, params = nnx.split(module)
        h = jax.ShapeDtypeStruct((B, L, D), jnp.float32)
        return count_flops(lambda params, h: nnx.merge(graph, params)(h), params, h)

    layer, hand = pair(ENERGIES[energy], DESCENTS["three steps"], "float32")
    assert flops(hand) == flops(layer) > 0


def test_a_config_builds_it_for_a_model():
    config = HandWrittenConfig(CEMConfig(InteractionConfig(2)))
    built = config.build(D, norm_eps=1e-4, dtype="float32", rngs=nnx.Rngs(0))
    assert built.layer.norm.eps == 1e-4
    assert built(cases.normal("h", B, L, D)).shape == (B, L, D)


@pytest.mark.parametrize(
    ("energy", "descent"),
    [
        (InteractionConfig(2, diagonal="head"), DescentConfig()),
        (InteractionConfig(2, relative_bias=3), DescentConfig()),
        (InteractionConfig(2, context_score=ContextScoreConfig(2)), DescentConfig()),
        (InteractionConfig(2, learn_temperature=True), DescentConfig()),
        (InteractionConfig(2), DescentConfig(norm_mode="once")),
        (InteractionConfig(2), DescentConfig(preconditioner=PreconditionerConfig(2, True))),
        (MemoryConfig(3), DescentConfig()),
    ],
)
def test_what_is_not_written_is_refused(energy, descent):
    with pytest.raises(ValueError, match=r"layer: got .*expected a layer that is written by hand"):
        HandWritten(CEMLayer(D, energy, descent, rngs=nnx.Rngs(0)))


@pytest.mark.parametrize("energy", ["attention", "nonlinear", "quadratic"])
@pytest.mark.parametrize("steps", [1, 2])
def test_the_layer_takes_no_more_memory(energy, steps):
    """Of a training gradient, with steps in straight code as the presets have them."""
    config = {"attention": InteractionConfig(4), "nonlinear": ElementwiseConfig(172)}.get(
        energy, ElementwiseConfig(172, "quadratic")
    )
    layer = CEMLayer(64, config, DescentConfig(steps, unroll=steps), rngs=nnx.Rngs(0))
    h = jax.ShapeDtypeStruct((2, 128, 64), jnp.float32)

    def temporary(module):
        graph, params = nnx.split(module)
        slope = jax.grad(lambda params, h: jnp.sum(jnp.sin(nnx.merge(graph, params)(h))), (0, 1))
        return temporary_bytes(jax.jit(slope).lower(params, h).compile())

    assert temporary(layer) <= 1.02 * temporary(HandWritten(layer))
