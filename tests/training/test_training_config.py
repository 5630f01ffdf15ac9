import math

import pytest

from cem_jax.training import AdamWConfig, MuonConfig, ScheduleConfig, TrainingConfig


@pytest.mark.parametrize("config", [AdamWConfig, MuonConfig])
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("learning_rate", 0.0, "learning_rate: got 0.0, expected a finite positive number"),
        ("learning_rate", math.nan, "learning_rate: got nan, expected a finite positive number"),
        ("learning_rate", math.inf, "learning_rate: got inf, expected a finite positive number"),
        ("clip", 0.0, "clip: got 0.0, expected a positive number"),
        ("clip", math.nan, "clip: got nan, expected a positive number"),
        ("weight_decay", -0.1, "weight_decay: got -0.1, expected a number >= 0"),
        ("b2", 1.0, r"b2: got 1.0, expected a number in \[0, 1\)"),
        ("schedule", "cosine", "schedule: got 'cosine', expected ScheduleConfig"),
    ],
)
def test_impossible_optimisers_are_refused(config, field, value, message, hook_off):
    with pytest.raises(ValueError, match=message):
        config(**{field: value})


def test_the_second_rate_and_the_momentum_are_looked_at():
    with pytest.raises(ValueError, match="adam_learning_rate: got 0"):
        MuonConfig(adam_learning_rate=0.0)
    with pytest.raises(ValueError, match="momentum: got 1"):
        MuonConfig(momentum=1.0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"warmup": 1.0}, r"warmup: got 1.0, expected a number in \[0, 1\)"),
        ({"warmup": -0.1}, "warmup: got -0.1"),
        ({"decay": 1.1}, r"decay: got 1.1, expected a number in \[0, 1\]"),
        ({"final": 1.5}, r"final: got 1.5, expected a number in \[0, 1\]"),
        ({"kind": "wsd", "warmup": 0.5, "decay": 0.6}, "warmup, decay: got 0.5 and 0.6"),
        ({"kind": "linear"}, "kind: got 'linear', expected one of"),
    ],
)
def test_impossible_schedules_are_refused(fields, message, hook_off):
    with pytest.raises(ValueError, match=message):
        ScheduleConfig(**fields)


@pytest.mark.parametrize(
    "field",
    [
        "steps",
        "batch",
        "length",
        "accumulate",
        "record_every",
        "evaluate_every",
        "save_every",
        "keep",
    ],
)
def test_impossible_runs_are_refused(field):
    with pytest.raises(ValueError, match=f"{field}: got 0, expected at least 1"):
        TrainingConfig(**{field: 0})


def test_what_no_machine_holds_is_refused():
    TrainingConfig(length=1 << 24, batch=64)
    with pytest.raises(ValueError, match="length: got 1,000,000,000 tokens in a row, expected at"):
        TrainingConfig(length=1_000_000_000)
    with pytest.raises(ValueError, match="batch: got 10,000,000 rows of 128 tokens, expected at"):
        TrainingConfig(batch=10_000_000)


def test_a_seed_is_a_word():
    with pytest.raises(ValueError, match="seed: got -1"):
        TrainingConfig(seed=-1)


def test_micro_batches_divide_the_batch(hook_off):
    TrainingConfig(batch=12, accumulate=4)
    message = "accumulate: got 8 .* of a batch of 12 rows, expected a divisor of it: 1, 2, 3, 4, 6,"
    with pytest.raises(ValueError, match=message):
        TrainingConfig(batch=12, accumulate=8)


def test_what_is_not_finite_stops_or_is_skipped(hook_off):
    with pytest.raises(ValueError, match="non_finite: got 'ignore', expected one of"):
        TrainingConfig(non_finite="ignore")
