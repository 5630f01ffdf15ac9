import math

import pytest

from cem_jax.training import OptimiserConfig, TrainingConfig


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("learning_rate", 0.0, "learning_rate: got 0.0, expected a positive number"),
        ("learning_rate", math.nan, "learning_rate: got nan, expected a positive number"),
        ("learning_rate", math.inf, "learning_rate: got inf, expected a finite positive number"),
        ("clip", 0.0, "clip: got 0.0, expected a positive number"),
        ("weight_decay", -0.1, "weight_decay: got -0.1, expected at least 0"),
        ("warmup", -1, "warmup: got -1, expected at least 0"),
        ("final_fraction", 1.5, r"final_fraction: got 1.5, expected a number in \[0, 1\]"),
        ("b2", 1.0, r"b2: got 1.0, expected a number in \[0, 1\)"),
    ],
)
def test_impossible_optimisers_are_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        OptimiserConfig(**{field: value})


@pytest.mark.parametrize("field", ["steps", "batch", "length", "record_every", "evaluate_every"])
def test_impossible_runs_are_refused(field):
    with pytest.raises(
        ValueError, match=f"{field}: got 0, expected a Python integer of at least 1"
    ):
        TrainingConfig(**{field: 0})


def test_a_seed_is_a_word_and_a_warm_up_ends():
    with pytest.raises(ValueError, match="seed: got -1"):
        TrainingConfig(seed=-1)
    with pytest.raises(ValueError, match="warmup: got 10 of 10 steps"):
        TrainingConfig(steps=10, optimiser=OptimiserConfig(warmup=10))
