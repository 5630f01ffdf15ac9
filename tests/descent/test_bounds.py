"""How far the energy must fall: the inequalities that hold, where they hold.

Attention is concave in u with keys fixed, so any update that u itself makes lowers the energy by
at least -g . update. For the element-wise energies the curvature on the segment bounds the loss.
Elsewhere, as in the default norm mode, the energy is recorded and nothing is promised.
"""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from cases import B, D, L
from flax import nnx

from cem_jax import InteractionConfig, PreconditionerConfig, StepSizeConfig, descend
from cem_jax.evaluation.diagnostics import least_eigenvalue

ATTENTION = [case.name for case in cases.ENERGIES if isinstance(case.config, InteractionConfig)]
MLP = [case.name for case in cases.ENERGIES if not case.attends and case.name != "memory"]


@pytest.mark.parametrize(
    ("name", "mode"),
    [*((name, "once") for name in ATTENTION), *((name, "none") for name in ("rotary", "all-head"))],
)
def test_attention_falls_by_at_least_the_linear_part(name, mode, x64):
    """-g . update = eta g^T P g, positive where P is definite."""
    definite = None if mode == "none" else PreconditionerConfig(rank=2, definite=True)
    layer = cases.layer(
        cases.ENERGY[name].config, norm_mode=mode, preconditioner=definite, dtype="float64"
    )
    h, sites = cases.normal("h", B, L, D), cases.packed()

    @jax.jit
    def steps(h):
        c = h if layer.norm is None else layer.norm(h)
        context = layer.energy.condition(c, sites)
        total = lambda u: (jnp.sum(layer.energy(u, context)), layer.energy(u, context))  # noqa: E731
        linear, u = [], c
        for _ in range(2):
            g = jax.grad(total, has_aux=True)(u)[0]
            matrix = jnp.eye(D) if layer.preconditioner is None else layer.preconditioner.matrix()
            update = -layer.step_size(jnp.int32(0), jnp.float64) * g @ matrix
            linear.append(-jnp.sum(g * update, -1))
            u = u + update
        return jnp.stack(linear), layer.run(h, sites, trace=True)

    linear, result = steps(h)
    fall = -np.diff(result.energies, axis=0)
    assert (linear >= 0).all()
    assert (fall >= linear - 1e-12).all()
    assert (fall[:, 0] > 0).all(), "a row that sees something must fall"


@cases.over(MLP)
def test_mlp_falls_up_to_the_curvature_on_the_segment(name, x64):
    """fall >= eta |g|^2 (1 - eta Lc / 2), Lc the largest eigenvalue of the Hessian there."""
    eta = 0.05
    layer = cases.layer(
        cases.ENERGY[name].config,
        norm_mode="once",
        steps=1,
        step_size=StepSizeConfig(eta, "fixed"),
        dtype="float64",
    )
    h, sites = cases.normal("h", B, L, D), cases.packed()

    @jax.jit
    def both(h):
        result = layer.run(h, sites, trace=True)
        c = layer.norm(h)
        end = c + (result.x - h)
        context = layer.energy.condition(c, sites)

        def one(u, own):
            return layer.energy(u[None, None], own[None, None])[0, 0]

        hessians = jax.vmap(jax.vmap(jax.hessian(one)))
        line = [hessians(c + s * (end - c), context) for s in jnp.linspace(0, 1, 9)]
        return result, jnp.linalg.eigvalsh(jnp.stack(line))[..., -1]

    result, curvature = both(h)
    # Between the nine points the curvature is a smooth function; a tenth covers its variation.
    largest = np.maximum(curvature.max(0), 0) * 1.1
    fall = result.energies[0] - result.energies[1]
    bound = eta * result.gradient_norms[0] ** 2 * (1 - eta * largest / 2)
    assert (fall >= bound - 1e-12).all()


def test_default_mode_promises_nothing():
    """The linear part of the norm's image is not that of x: a counterexample is at hand."""
    layer = cases.layer(cases.ENERGY["low-rank"].config, step_size=StepSizeConfig(2.0, "fixed"))
    h = cases.normal("many", 64, L, D)
    result = jax.jit(lambda h: layer.run(h, trace=True))(h)
    fall = -np.diff(result.energies, axis=0)
    assert (fall < 2.0 * np.square(result.gradient_norms)).mean() > 0.5


def test_symmetric_preconditioner_may_climb_and_its_least_eigenvalue_says_so():
    matrix = PreconditionerConfig(rank=2).build(D, rngs=nnx.Rngs(0))
    assert least_eigenvalue(matrix) > 0.999
    cases.randomize(matrix, scale=3.0)
    values, vectors = jnp.linalg.eigh(matrix.matrix())
    assert values[0] < 0
    np.testing.assert_allclose(least_eigenvalue(matrix), values[0], rtol=1e-5)
    # A linear energy whose gradient is the worst direction: the step goes up by eta |lambda|.
    rule = optax.chain(matrix.transformation(), optax.scale(-0.1))
    worst = vectors[:, 0]
    result = descend(
        lambda u: jnp.einsum("bld,d->bl", u, worst),
        jnp.zeros((1, 1, D)),
        steps=1,
        transformation=rule,
        trace=True,
    )
    rise = result.energies[1, 0, 0] - result.energies[0, 0, 0]
    np.testing.assert_allclose(rise, -0.1 * values[0], rtol=1e-4)
