"""The floors are exact: beside direct solves, degenerate cases, and optimality."""

import dataclasses

import jax
import numpy as np
import pytest

from experiments.gaussian_process.bayes import given_point, integrated, known
from experiments.gaussian_process.prior import KERNELS, Point


@pytest.fixture
def draw(prior):
    return [np.asarray(part, np.float64) for part in prior.sample(jax.random.key(0), 5, 24)[:2]]


def direct(x, y, point, i):
    """Mean, variance and log evidence of the first i pairs, by solves and determinants."""
    k = KERNELS[point.kernel](np.abs(x[:, None, 0] - x[None, :, 0]) / point.length_scale)
    k += point.noise**2 * np.eye(len(x))
    weight = np.linalg.solve(k[:i, :i], np.stack([y[:i], k[:i, i]], axis=1))
    _, logdet = np.linalg.slogdet(k[:i, :i])
    evidence = -(y[:i] @ weight[:, 0] + logdet) / 2
    return k[i, :i] @ weight[:, 0], k[i, i] - k[i, :i] @ weight[:, 1], evidence


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_factor_gives_the_solve_of_every_prefix(draw, kernel):
    x, y = draw
    point = Point(kernel, 0.8, 0.1)
    mean, variance = given_point(x, y, point)
    for b in range(len(y)):
        expected = [direct(x[b], y[b], point, i)[:2] for i in range(y.shape[1])]
        np.testing.assert_allclose(mean[b], [one[0] for one in expected], rtol=0, atol=1e-10)
        np.testing.assert_allclose(variance[b], [one[1] for one in expected], rtol=0, atol=1e-10)


def test_integrated_weighs_by_the_evidence_of_each_prefix(prior, draw):
    x, y = draw
    mean = integrated(prior, x, y)
    for i in (0, 1, 7, 23):
        parts = np.array([direct(x[2], y[2], point, i) for point in prior.grid])
        weight = np.exp(parts[:, 2] - parts[:, 2].max())
        expected = weight @ parts[:, 0] / weight.sum()
        assert mean[2, i] == pytest.approx(expected, abs=1e-10)


def test_a_grid_of_one_point_leaves_nothing_to_integrate(prior, draw):
    x, y = draw
    single = dataclasses.replace(prior, kernels=("rbf",), length_scales=(0.3,))
    told = known(single, x, y, np.zeros(len(y), int))
    np.testing.assert_allclose(integrated(single, x, y), told, rtol=0, atol=1e-12)


def test_nothing_is_known_before_the_first_pair(prior, draw):
    assert np.array_equal(integrated(prior, *draw)[:, 0], np.zeros(5))


def test_no_prediction_depends_on_its_own_value_or_on_later_pairs(prior, draw):
    x, y = draw
    changed = y.copy()
    changed[:, 10:] += 3.0
    before, after = integrated(prior, x, y), integrated(prior, x, changed)
    assert np.array_equal(before[:, :11], after[:, :11])
    assert (before[:, 11] != after[:, 11]).all()


def test_the_bayes_predictor_beats_every_fixed_point_and_loses_to_the_truth(prior):
    x, y, point = (np.asarray(part) for part in prior.sample(jax.random.key(3), 400, 24))
    bayes = np.mean((integrated(prior, x, y) - y) ** 2)
    fixed = [np.mean((given_point(x, y, one).mean - y) ** 2) for one in prior.grid]
    assert np.mean((known(prior, x, y, point) - y) ** 2) < bayes < min(fixed)


def test_the_predictive_variance_is_that_of_the_errors(prior):
    single = dataclasses.replace(prior, kernels=("matern12",), length_scales=(1.5,))
    x, y, _ = (np.asarray(part) for part in single.sample(jax.random.key(4), 400, 24))
    mean, variance = given_point(x, y, single.grid[0])
    assert np.mean((y - mean) ** 2 / variance) == pytest.approx(1, abs=0.05)
