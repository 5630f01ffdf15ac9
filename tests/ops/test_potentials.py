"""Phi and phi: values by quadrature, derivatives finite and right everywhere."""

import math

import jax
import jax.numpy as jnp
import loops
import numpy as np
import pytest

from cem_jax.ops.potentials import activate, potential

over = pytest.mark.parametrize("activation", ["silu", "gelu", "squared_relu"])
backends = pytest.mark.parametrize("backend", ["given", "plain"])
POINTS = np.concatenate([s * np.array([1e-3, 0.1, 0.7, 1, 3, 8, 12, 20, 40, 100]) for s in (-1, 1)])


@over
@backends
def test_value_is_the_integral(activation, backend, x64):
    points = POINTS[np.abs(POINTS) <= 20]
    expected = [loops.potential(z, activation) for z in points]
    value = potential(jnp.asarray(points), activation, backend)
    np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-10)


@over
def test_activation_is_the_textbook_one(activation, x64):
    expected = [loops.phi(z, activation) for z in POINTS]
    np.testing.assert_allclose(
        activate(jnp.asarray(POINTS), activation), expected, rtol=1e-10, atol=1e-14
    )


@pytest.mark.slow
@over
@backends
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_derivative_is_phi_and_finite_in_both_modes(activation, backend, dtype, x64):
    z = jnp.asarray(np.append(POINTS, 0.0), dtype)
    function = lambda z: potential(z, activation, backend)  # noqa: E731
    _, forward = jax.jvp(function, (z,), (jnp.ones_like(z),))
    reverse = jax.grad(lambda z: jnp.sum(function(z)))(z)
    tolerance = 1e-10 if dtype == "float64" else 1e-5
    for derivative in (forward, reverse):
        np.testing.assert_allclose(
            derivative, activate(z, activation), rtol=tolerance, atol=tolerance
        )


@over
@backends
def test_second_derivative_at_zero_is_right(activation, backend, x64):
    second = {"silu": 0.5, "gelu": 0.5, "squared_relu": 0.0}[activation]
    slopes = [jax.grad(lambda z: potential(z, activation, backend))]
    slopes += [jax.grad(slopes[0]), lambda z: jax.jvp(slopes[0], (z,), (jnp.ones_like(z),))[1]]
    around = jnp.array([-1e-9, 0.0, 1e-9])
    values = jax.jit(jax.vmap(lambda z: [slope(z) for slope in slopes]))(around)
    for value, expected in zip(values, (0.0, second, second), strict=True):
        np.testing.assert_allclose(value, np.full(3, expected), atol=1e-8)


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-5), ("bfloat16", 1e-2)])
def test_left_tail_keeps_its_digits(dtype, bound):
    z = jnp.array([-1.0, -2.0, -3.0, -4.0, -5.0, -6.0], dtype)
    exact = [z * math.erfc(-z / math.sqrt(2)) / 2 for z in map(float, z)]
    found = np.asarray(activate(z, "gelu"), np.float64)
    np.testing.assert_allclose(found, exact, rtol=bound)


@over
def test_bfloat16_is_summed_in_float32(activation):
    z = jnp.asarray(POINTS, jnp.bfloat16)
    assert potential(z, activation).dtype == jnp.float32
    assert activate(z, activation).dtype == jnp.bfloat16
    assert jnp.isfinite(potential(z, activation)).all()
