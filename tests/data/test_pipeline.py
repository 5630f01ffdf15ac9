from collections import Counter
from itertools import chain, islice

import jax
import numpy as np
import pytest

from cem_jax.data import Pipeline, pack

ROWS, BATCH = 11, 4
rows = pack([list(range(1, ROWS + 2))], 1)  # row i holds i + 1, i + 2
steps = range(3 * ROWS)  # BATCH epochs and more


def firsts(pipeline, steps):
    """The rows of each step, as the piece that they start with."""
    return [pipeline.batch(step).inputs[:, 0].tolist() for step in steps]


def test_a_batch_is_a_function_of_seed_and_step():
    pipeline = Pipeline(rows, batch=BATCH, seed=3)
    met = firsts(pipeline, steps)
    for step in (0, 2, 3, 17, 32, 5):
        fresh = Pipeline(rows, batch=BATCH, seed=3)
        jax.tree.map(np.testing.assert_array_equal, fresh.batch(step), pipeline.batch(step))
        assert firsts(fresh, [step]) == [met[step]]
    assert firsts(Pipeline(rows, batch=BATCH, seed=4), steps) != met


def test_epochs_differ_in_order_and_not_in_rows():
    stream = list(chain.from_iterable(firsts(Pipeline(rows, batch=BATCH, seed=0), steps)))
    epochs = [stream[start : start + ROWS] for start in range(0, len(stream) - ROWS + 1, ROWS)]
    assert len(epochs) == 12
    for epoch in epochs:
        assert Counter(epoch) == Counter(range(1, ROWS + 1))
    assert len({tuple(epoch) for epoch in epochs}) == len(epochs)


def orders(seed, epochs, batch=BATCH):
    """The order of the rows in each of so many epochs."""
    pipeline = Pipeline(rows, batch=batch, seed=seed)
    stream = chain.from_iterable(pipeline.rows_of(s).tolist() for s in range(epochs * ROWS))
    return [tuple(islice(stream, ROWS)) for _ in range(epochs)]


def test_the_order_of_an_epoch_is_that_of_seed_and_epoch_alone():
    """As it has always been: a run that goes on elsewhere meets the same rows."""
    assert orders(0, 3) == [
        (1, 2, 4, 5, 9, 7, 10, 6, 0, 3, 8),
        (9, 10, 1, 8, 2, 0, 3, 5, 4, 7, 6),
        (7, 8, 2, 4, 1, 10, 3, 6, 5, 0, 9),
    ]
    assert orders(5, 4, batch=1) == orders(5, 4, batch=7)


def test_no_seed_is_another_one_an_epoch_later():
    met = [order for seed in range(4) for order in orders(seed, 4)]
    assert len(set(met)) == len(met)


def test_inputs_and_targets_stay_together():
    batch = Pipeline(rows, batch=BATCH, seed=0).batch(5)
    np.testing.assert_array_equal(batch.targets, batch.inputs + 1)
    assert batch.inputs.shape == batch.mask.shape == batch.sites.segment.shape == (BATCH, 1)


def test_fewer_rows_than_a_batch_are_met_again():
    batch = Pipeline(rows.select(slice(0, 2)), batch=5, seed=0).batch(0)
    assert batch.inputs.shape == (5, 1)


def test_impossible_values_are_refused():
    with pytest.raises(ValueError, match="batch: got 0, expected at least 1"):
        Pipeline(rows, batch=0, seed=0)
    with pytest.raises(ValueError, match="rows: got none"):
        Pipeline(rows.select(slice(0, 0)), batch=1, seed=0)
    with pytest.raises(ValueError, match="step: got -1"):
        Pipeline(rows, batch=1, seed=0).batch(-1)
