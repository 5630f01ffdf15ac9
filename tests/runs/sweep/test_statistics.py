"""Means, spreads and paired intervals against SciPy and by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from cem_jax.runs.sweep.statistics import paired, spread

RNG = np.random.default_rng(0)


def test_the_interval_is_that_of_the_paired_t_test():
    values, others = RNG.normal(size=(2, 5))
    found = paired(dict(enumerate(values)), dict(enumerate(others)))
    expected = stats.ttest_rel(values, others).confidence_interval(0.95)
    np.testing.assert_allclose(found, (5, (values - others).mean(), *expected), rtol=1e-12)


def test_pairs_are_found_by_seed():
    found = paired({0: 1.0, 7: 2.0, 3: 5.0}, {7: 1.5, 0: 0.25, 9: 100.0})
    assert found.pairs == 2
    assert found.mean == pytest.approx((0.75 + 0.5) / 2)
    assert found == paired({7: 2.0, 0: 1.0}, {0: 0.25, 7: 1.5})


def test_one_pair_has_no_interval_and_none_has_no_mean():
    one = paired({0: 1.0}, {0: 0.5})
    assert one[:2] == (1, 0.5)
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    assert paired({0: 1.0}, {1: 0.5}).pairs == 0
    assert math.isnan(paired({}, {}).mean)


def test_the_spread_is_the_sample_deviation():
    values = list(RNG.normal(size=4))
    np.testing.assert_allclose(spread(values), (4, np.mean(values), np.std(values, ddof=1)))
    assert math.isnan(spread([1.0]).deviation)
