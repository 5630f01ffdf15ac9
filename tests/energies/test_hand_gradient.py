"""The energy and its gradient, against loops written from the equations."""

import math

import cases
import jax
import jax.numpy as jnp
import loops
import numpy as np
import pytest
from flax import nnx

from cem_jax import ElementwiseConfig, InteractionConfig, MemoryConfig, SumConfig


def by_hand(config, energy, u, c, sites):
    if isinstance(config, SumConfig):
        terms = zip(config.terms, energy.terms, strict=True)
        parts = [by_hand(own, term, u, c, sites) for own, term in terms]
        return tuple(sum(values) for values in zip(*parts, strict=True))
    p = {name: np.asarray(value) for name, value in cases.split(energy)[1].items() if name in NAMES}
    if isinstance(config, MemoryConfig):
        return loops.memory(u, p)
    if isinstance(config, ElementwiseConfig):
        return loops.elementwise(u, c, p, config.form, config.activation)
    assert isinstance(config, InteractionConfig)
    options = {"fraction": config.rotary.fraction, "base": config.rotary.base}
    tau = config.temperature or math.sqrt(p["wq"].shape[-1])
    if energy.log_temperature is not None:
        tau = math.exp(energy.log_temperature[...])
    if energy.bias is not None:
        p["bias"] = np.asarray(energy.bias.table[...])
    if energy.score is not None:
        p |= {
            f"score_{name}": np.asarray(value)
            for name, value in cases.split(energy.score)[1].items()
        }
        options["score_fraction"] = config.context_score.rotary.fraction
    options["window"] = config.visible.window
    return loops.interaction(u, c, *map(np.asarray, sites), p, tau=tau, **options)


NAMES = ("wq", "wk", "d", "gate", "up", "patterns")


@pytest.mark.slow
@cases.over(cases.ENERGIES)
def test_value_and_gradient_equal_the_loops(name, x64):
    """On the shipped backend and on the plain one."""
    config, sites = cases.ENERGY[name].config, cases.packed()
    energy = cases.randomize(config.build(cases.D, rngs=nnx.Rngs(3)))
    _, params = cases.split(energy)
    graphs = [
        nnx.split(nnx.eval_shape(lambda c=c: c.build(cases.D, rngs=nnx.Rngs(3))))[0]
        for c in (config, cases.plain(config))
    ]
    u, c = (cases.normal(seed, cases.B, cases.L, cases.D) for seed in ("u", "c"))

    @jax.jit
    def both(params, u, c):
        def one(graph):
            built = nnx.merge(graph, params)
            context = built.condition(c, sites)
            value, pull = jax.vjp(lambda u: built(u, context), u)
            return value, pull(jnp.ones_like(value))[0]

        return [one(graph) for graph in graphs]

    expected, slope = by_hand(config, energy, np.asarray(u), np.asarray(c), sites)
    for value, gradient in both(params, u, c):
        assert value.dtype == jnp.float64
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(gradient, slope, rtol=1e-10, atol=1e-10)


@cases.over(cases.ENERGIES)
def test_plain_form_has_no_custom_rule(name, x64):
    energy = cases.plain(cases.ENERGY[name].config).build(cases.D, rngs=nnx.Rngs(3))
    h = cases.normal("u", cases.B, cases.L, cases.D)
    program = str(jax.make_jaxpr(lambda h: energy(h, energy.condition(h, cases.packed())))(h))
    assert "custom_jvp" not in program
    assert "custom_vjp" not in program
