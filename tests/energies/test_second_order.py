"""Both modes to second order against central differences, in variable, context and weights.

What `jax.test_util.check_grads` does, along one direction and in one compiled program: each
energy once, since compilation is what takes time.
"""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from cem_jax import Sites

pytestmark = pytest.mark.slow

SITES = Sites(jnp.array([[0, 1, 0]], jnp.int32), jnp.array([[1, 1, 0]], jnp.int32))
STEP = 1e-5


def dot(first, second):
    products = jax.tree.map(jnp.vdot, first, second)
    return sum(jax.tree.leaves(products))


@cases.over(cases.ENERGIES)
def test_derivatives_equal_differences(name, x64):
    energy = cases.randomize(cases.ENERGY[name].config.build(cases.D, rngs=nnx.Rngs(3)))
    graph, params = cases.split(energy)
    at = (params, *(0.5 * cases.normal(seed, 1, 3, cases.D) for seed in ("u", "c")))
    direction = jax.tree.map(lambda x: cases.normal("direction", *x.shape), at)

    def total(at):
        params, u, c = at
        module = nnx.merge(graph, params)
        return jnp.vdot(jnp.arange(1.0, 4.0)[None], module(u, module.condition(c, SITES)))

    def forward(at):
        return jax.jvp(total, (at,), (direction,))[1]

    slope = jax.grad(total)

    def difference(function, at):
        ends = [
            function(jax.tree.map(lambda x, v, s=s: x + s * STEP * v, at, direction))
            for s in (1, -1)
        ]
        return jax.tree.map(lambda up, down: (up - down) / (2 * STEP), *ends)

    @jax.jit
    def derivatives(at):
        first = forward(at), dot(slope(at), direction)
        second = (
            jax.jvp(slope, (at,), (direction,))[1],
            jax.grad(lambda at: dot(slope(at), direction))(at),
            jax.grad(forward)(at),
        )
        return first, difference(total, at), second, difference(slope, at)

    first, expected, second, expected_slope = derivatives(at)
    np.testing.assert_allclose(first, np.full(2, expected), rtol=1e-6, atol=1e-6)
    for value in second:
        for mine, other in zip(*map(jax.tree.leaves, (value, expected_slope)), strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)
