"""A loss or a gradient that is no finite number: what is skipped, what ends the run."""

import dataclasses
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from cem_jax.data import pack
from cem_jax.ops.readout import readout_cross_entropy
from cem_jax.training import (
    AdamWConfig,
    Hooks,
    NonFiniteError,
    TrainingConfig,
    initial_state,
    make_optimiser,
    make_step,
    skipped_in_a_row,
    train,
)
from cem_jax.training.finite import SKIPS

WILD, WORSE = 13, 14
"""Pieces: one makes the gradient overflow and not the loss, the other both."""


class Touchy(nnx.Module):
    """A bigram model, and a parameter at 0 whose gradient is as large as the pieces say."""

    def __init__(self, rngs):
        self.table = nnx.Param(0.1 * jax.random.normal(rngs.params(), (16, 16)))
        self.edge = nnx.Param(jnp.zeros(1))

    def cross_entropy(self, tokens, targets, mask, sites):
        hidden = self.table[...][tokens]
        nats, count = readout_cross_entropy(hidden, jnp.eye(16), targets, mask)
        slope = jnp.where(jnp.any(tokens == WILD), 1e30, 0.0)
        worse = jnp.where(jnp.any(tokens == WORSE), jnp.inf, 1.0)
        return worse * (nats + slope * self.edge[0]), count


optimiser = make_optimiser(AdamWConfig(learning_rate=0.1), 60)
rows = pack([[1, 3, 4, 5], [1, 6, 7, 8], [1, 9, WILD, 3], [1, 4, WORSE, 3], [1, 3, 3, 4]], 4)


def batch(*numbers):
    """Rows of one document each."""
    return rows.batch([list(rows.tokens[:, 1]).index(first) for first in numbers])


GOOD, OTHER = (3, 6), (6, 3)
"""First pieces of the documents of a batch."""


def after(*batches, **options):
    """State and metrics after these batches, and those of no other."""
    graph, state = initial_state(Touchy, optimiser, seed=0)
    step, told = make_step(graph, optimiser, **options), []
    for numbers in batches:
        state, metrics = step(state, batch(*numbers))
        told.append({name: float(value) for name, value in metrics.items()})
    assert step._cache_size() == 1
    return state, told


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize(("bad", "finite"), [(9, {"loss"}), (4, set())])
def test_a_step_that_is_not_finite_is_as_if_it_had_not_been(bad, finite, accumulate):
    options = {"non_finite": "skip", "accumulate": accumulate}
    state, told = after(GOOD, (6, bad), OTHER, **options)
    without, _ = after(GOOD, OTHER, **options)
    assert [metrics["skipped"] for metrics in told] == [0, 1, 0]
    names = ("loss", "gradient_norm")
    assert {name for name in names if math.isfinite(told[1][name])} == finite
    # The optimiser's own count, and with it the schedule, is that of two steps.
    assert [int(one["step"]) for one in (state, without)] == [3, 2]
    for name in ("params", "opt_state"):
        jax.tree.map(np.testing.assert_array_equal, state[name], without[name])


def test_a_step_that_may_not_be_skipped_says_nothing_of_it():
    _, (metrics,) = after(GOOD)
    assert set(metrics) == {"loss", "tokens", "gradient_norm"}
    # What is skipped where all is finite is nothing: the same bits.
    one, other = after(GOOD, OTHER)[0], after(GOOD, OTHER, non_finite="skip")[0]
    jax.tree.map(np.testing.assert_array_equal, one, other)


config = TrainingConfig(steps=40, record_every=7, evaluate_every=100, save_every=100)


def looped(bad, *, start=0, skipped=0, config=config):
    """Records, steps that were said to be skipped, saved steps, and the error, of a loop."""

    def step(state, index):
        gone = index + 1 in bad
        metrics = {"loss": math.nan if gone else 1.0, "tokens": 5.0, "gradient_norm": 1.0}
        metrics = {name: jnp.float32(value) for name, value in metrics.items()}
        state = {"params": {"w": jnp.ones(1)}, "step": state["step"] + 1}
        return state, metrics | {"skipped": jnp.asarray(gone)}

    records, told, saved, error = [], [], [], None
    hooks = Hooks(
        record=records.extend,
        skipped=lambda record: told.append(record["step"]),
        save=lambda state, figures: saved.append(int(state["step"])),
    )
    try:
        state = {"params": {"w": jnp.ones(1)}, "step": jnp.int32(start)}
        train(state, step, lambda index: index, config, hooks, skipped=skipped)
    except NonFiniteError as raised:
        error = raised
    return records, told, saved, error


def test_skipped_steps_are_recorded_without_their_figures_and_told():
    records, told, saved, error = looped({3, 8, 9})
    assert error is None
    assert told == [3, 8, 9]
    assert saved == [40]
    assert [record["step"] for record in records] == list(range(1, 41))
    seconds, why = records[2].pop("seconds"), "loss nan, gradient_norm 1.0"
    assert records[2] == {"step": 3, "tokens": 5, "skipped": 1, "why": why}
    assert set(records[3]) == {"step", "loss", "tokens", "gradient_norm", "seconds"}
    assert seconds == records[3]["seconds"]
    json.dumps(records, allow_nan=False)


def test_ten_in_a_row_go_on_and_eleven_do_not():
    assert SKIPS == 10
    ten = set(range(5, 15))
    assert looped(ten)[3] is None
    assert looped(ten | {16})[3] is None
    records, told, saved, error = looped(ten | {15})
    assert str(error).startswith(
        "non_finite: got 11 steps in a row that were skipped, 5 to 15 (the last: loss nan, "
    )
    # The state that they were all of.
    assert (error.step, error.suspect) == (15, 4)
    assert told == sorted(ten)
    assert records[-1]["step"] == 14
    assert saved == []


def test_a_run_that_goes_on_counts_from_its_records():
    bad = set(range(5, 30))
    straight = looped(bad)
    for stop in (4, 5, 9, 14):
        before = looped(bad, config=dataclasses.replace(config, steps=stop))[0]
        count = skipped_in_a_row([*before, {"step": stop, "valid_loss": 1.0}])
        assert count == stop - 4
        records, told, _, error = looped(bad, start=stop, skipped=count)
        assert (error.step, error.suspect) == (straight[3].step, straight[3].suspect) == (15, 4)
        assert [r["step"] for r in before + records] == [r["step"] for r in straight[0]]
        assert told == [step for step in straight[1] if step > stop]
    assert skipped_in_a_row([]) == 0
