"""What is drawn is what the prior says."""

import jax
import numpy as np
import pytest
from scipy.special import kv

from experiments.gaussian_process.prior import KERNELS, Prior, distance


@pytest.mark.parametrize(("name", "nu"), [("matern12", 0.5), ("matern32", 1.5), ("matern52", 2.5)])
def test_matern_kernels_are_those_of_the_bessel_function(name, nu):
    r = np.linspace(0.05, 4, 30)
    z = np.sqrt(2 * nu) * r
    scale = {0.5: np.sqrt(2 / np.pi), 1.5: np.sqrt(2 / np.pi), 2.5: np.sqrt(2 / np.pi) / 3}[nu]
    np.testing.assert_allclose(KERNELS[name](r), scale * z**nu * kv(nu, z), rtol=1e-12)


def test_rbf_is_a_gaussian_of_the_distance():
    assert KERNELS["rbf"](np.array(2.0)) == pytest.approx(np.exp(-2))


def test_second_moments_of_draws_are_the_covariance():
    # One point of the grid and inputs that hardly differ: y_i y_j has mean k(0) = 1, y_i^2 1.25.
    prior = Prior("x", 2, 1e-4, length_scales=(1.0,), kernels=("rbf",), noises=(0.5,))
    y = np.asarray(prior.sample(jax.random.key(0), 4000, 3).y)
    np.testing.assert_allclose(y.T @ y / len(y), np.ones((3, 3)) + 0.25 * np.eye(3), atol=0.1)


def test_each_sequence_has_the_hyper_parameters_of_its_point():
    # Of 32 values of a process, what the first differences are tells length scale and noise.
    prior = Prior("x", 1, 2.0, length_scales=(0.01, 100.0), kernels=("rbf",), noises=(0.05, 0.5))
    draw = prior.sample(jax.random.key(0), 400, 32)
    spread = np.asarray(draw.y).std(axis=1)
    point = np.asarray(draw.point)
    means = [spread[point == number].mean() for number in range(len(prior.grid))]
    expected = [np.sqrt((one.length_scale < 1) + one.noise**2) for one in prior.grid]
    np.testing.assert_allclose(means, expected, rtol=0.1, atol=0.02)


def test_inputs_fill_their_cube_and_distances_are_euclidean():
    prior = Prior("x", 3, 0.7, length_scales=(1.0,))
    x = np.asarray(prior.sample(jax.random.key(1), 50, 20).x)
    assert x.shape == (50, 20, 3)
    assert -0.7 <= x.min() < -0.65
    assert 0.65 < x.max() <= 0.7
    assert distance(x)[4, 2, 9] == pytest.approx(np.linalg.norm(x[4, 2] - x[4, 9]), rel=1e-5)


def test_unknown_kernels_and_empty_grids_are_refused():
    with pytest.raises(ValueError, match="Did you mean matern32"):
        Prior("x", 1, 1.0, length_scales=(1.0,), kernels=("matern_32",))
    with pytest.raises(ValueError, match="empty grid"):
        Prior("x", 1, 1.0, length_scales=())
