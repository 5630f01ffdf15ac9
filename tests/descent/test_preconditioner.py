"""P and eta: the identity at the start, the matrices they name, and gradients from the start."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from cases import D
from flax import nnx

from cem_jax import PreconditionerConfig, StepSizeConfig
from cem_jax.descent import StepSize
from cem_jax.descent.per_position import PerPosition

forms = pytest.mark.parametrize("definite", [False, True])


def build(definite):
    return PreconditionerConfig(rank=3, definite=definite).build(D, rngs=nnx.Rngs(0))


@forms
def test_start_is_the_identity(definite):
    np.testing.assert_allclose(build(definite).matrix(), jnp.eye(D), rtol=1e-6, atol=1e-6)


@forms
def test_matrix_is_the_equation(definite):
    p = cases.randomize(build(definite))
    d, u, v = (np.asarray(w[...], np.float64) for w in (p.diagonal, p.left, p.right))
    if definite:
        m = np.diag(d) + u @ v.T
        expected = m @ m.T
        assert np.linalg.eigvalsh(p.matrix()).min() > -1e-5
    else:
        expected = np.diag(np.log1p(np.exp(d))) + u @ v.T + v @ u.T
    np.testing.assert_allclose(p.matrix(), expected, rtol=1e-5, atol=1e-5)
    g = cases.normal("g", D)
    np.testing.assert_allclose(p(g), expected @ g, rtol=1e-5, atol=1e-5)


@forms
def test_every_factor_but_u_has_a_gradient_at_the_start(definite):
    """V = 0 hides U at first; V itself and d move."""
    graph, params = cases.split(build(definite))
    g, weight = cases.normal("g", D), cases.normal("weight", D)
    slopes = jax.grad(lambda params: weight @ nnx.merge(graph, params)(g))(params)
    assert np.any(slopes["right"])
    assert np.any(slopes["diagonal"])
    assert not np.any(slopes["left"])


def test_a_matrix_of_each_step_is_that_of_its_step():
    """Three matrices in one module, each as if it were alone; all begin as the identity."""
    p = PreconditionerConfig(rank=3, learn="step").build(D, steps=3, rngs=nnx.Rngs(0))
    starts = jax.vmap(p.matrix)(jnp.arange(3))
    np.testing.assert_allclose(starts, np.broadcast_to(np.eye(D), (3, D, D)), rtol=1e-6, atol=1e-6)
    assert np.any(p.left[0] != p.left[1])
    p, one = cases.randomize(p), build(definite=False)
    g = cases.normal("g", D)
    for step in range(3):
        for name in ("diagonal", "left", "right"):
            getattr(one, name)[...] = getattr(p, name)[step]
        np.testing.assert_allclose(p.matrix(step), one.matrix(), rtol=1e-6, atol=1e-6)
        update, _ = p.transformation().update(g, optax.EmptyState(), step=jnp.asarray(step))
        np.testing.assert_allclose(update, one(g), rtol=1e-6, atol=1e-6)


def test_a_matrix_of_each_step_is_for_its_steps_alone():
    layer = cases.layer(
        cases.ENERGY["low-rank"].config, preconditioner=PreconditionerConfig(2, learn="step")
    )
    h = cases.normal("h", 2, 3, D)
    assert layer(h, steps=1).shape == h.shape
    with pytest.raises(ValueError, match="got 3 with 2 learned preconditioners, expected at most"):
        layer(h, steps=3)


@pytest.mark.parametrize("learn", ["fixed", "layer", "step"])
def test_step_size_starts_where_it_is_told(learn):
    eta = StepSize(StepSizeConfig(0.2, learn), 3)
    np.testing.assert_allclose([eta(jnp.int32(t)) for t in range(3)], 0.2, rtol=1e-6)
    assert (eta.raw is None) == (learn == "fixed")
    assert learn == "fixed" or eta.raw[...].shape == {"layer": (), "step": (3,)}[learn]


def test_step_size_stays_positive():
    eta = StepSize(StepSizeConfig(0.2), 1)
    eta.raw[...] = jnp.float32(-30.0)
    assert eta(jnp.int32(0)) > 0


def test_fixed_step_size_is_exact_in_float64(x64):
    value = StepSize(StepSizeConfig(0.3, "fixed"), 1)(jnp.int32(0), jnp.float64)
    assert float(value) == 0.3


def test_noise_is_the_same_at_every_position():
    """As documented: the state, its key too, is each position's own copy."""
    rule = PerPosition(optax.add_noise(0.1, 0.0, jax.random.key(0)))
    x = jnp.zeros((2, 3, D))
    update, _ = rule.update(x, rule.init(x), x, step=jnp.int32(0))
    assert np.any(update)
    np.testing.assert_array_equal(update, jnp.broadcast_to(update[:1, :1], x.shape))
