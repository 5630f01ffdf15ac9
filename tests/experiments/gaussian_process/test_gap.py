"""The share of the gap, its pairing and its interval."""

import math

import numpy as np
import pytest
from scipy import stats

from experiments.gaussian_process import gap


@pytest.mark.parametrize("part", gap.PARTS)
def test_the_trivial_predictor_closes_nothing_and_bayes_all(part, floor):
    assert gap.share(floor["trivial"], floor, part) == 0
    assert gap.share(floor["bayes"], floor, part) == 1


def test_a_share_is_of_squared_errors_over_its_positions(floor):
    model = [9.0] * 48 + [0.4] * 16
    assert gap.share(model, floor, "late") == pytest.approx(0.75)


def test_differences_pair_seeds_with_those_of_one_step(folder, floor):
    unit = 1 - np.mean(floor["bayes"])
    found = gap.paired_differences(folder=folder)
    assert found.keys() == {("1d", 1)}
    assert found["1d", 1].keys() == {"cem-t2", "mha"}
    assert found["1d", 1]["cem-t2"] == pytest.approx({0: 0.1 / unit, 1: 0.05 / unit})
    assert found["1d", 1]["mha"] == pytest.approx({1: 0.1 / unit})


def test_the_interval_is_that_of_a_t_test():
    values = [0.3, 0.1, 0.45, 0.2, 0.25]
    mean, half = gap.interval(values)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (mean - half, mean + half) == pytest.approx((expected.low, expected.high))


def test_one_value_has_no_interval():
    mean, half = gap.interval([0.3])
    assert mean == 0.3
    assert math.isnan(half)
