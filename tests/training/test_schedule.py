import numpy as np
import pytest

from cem_jax.training import ScheduleConfig, make_schedule
from cem_jax.training.schedule import told, warmup_steps


def close(rate, expected):
    np.testing.assert_allclose(rate, expected, rtol=1e-6)


@pytest.mark.parametrize("warmup", [1, 2, 10])
def test_the_corners_of_the_cosine(warmup):
    config = ScheduleConfig("cosine", warmup=warmup / 40, final=0.1)
    rate = make_schedule(config, 0.5, 40)
    close(rate(0), 0.5 / (warmup + 1))
    close(rate(warmup - 1), 0.5 * warmup / (warmup + 1))
    close(rate(warmup), 0.5)
    close(rate(warmup + (40 - warmup) / 2), 0.5 * 1.1 / 2)
    close(rate(40), 0.05)
    rates = [float(rate(step)) for step in range(41)]
    assert rates == [*sorted(rates[: warmup + 1]), *sorted(rates[warmup + 1 :], reverse=True)]


@pytest.mark.parametrize("warmup", [1, 4])
def test_the_corners_of_warm_up_stable_decay(warmup):
    rate = make_schedule(ScheduleConfig("wsd", warmup / 40, decay=0.25, final=0.1), 0.5, 40)
    close(rate(0), 0.5 / (warmup + 1))
    close(rate(warmup - 1), 0.5 * warmup / (warmup + 1))
    for step in range(warmup, 31):
        close(rate(step), 0.5)
    close(rate(35), 0.5 * (1 + 0.1) / 2)
    close(rate(39), 0.5 * (0.1 + 0.9 / 10))
    close(rate(40), 0.05)


def test_what_is_said_of_a_schedule_is_what_it_does():
    config = ScheduleConfig("wsd", warmup=0.1, decay=0.25, final=0.1)
    assert told(config, 0.5, 40) == (
        "wsd over 40 steps: up to 0.5 at step 4, from step 30 in a line down to 0.05"
    )
    rate = make_schedule(config, 0.5, 40)
    assert [step for step in range(40) if rate(step) > 0.4999] == list(range(4, 31))
    cosine = told(ScheduleConfig("cosine", warmup=0.1, final=0.1), 0.5, 40)
    assert cosine == "cosine over 40 steps: up to 0.5 at step 4, half a cosine down to 0.05"


@pytest.mark.parametrize("kind", ["cosine", "wsd"])
def test_a_schedule_without_warm_up_starts_at_its_peak(kind):
    rate = make_schedule(ScheduleConfig(kind, warmup=0.0, decay=1.0), 0.5, 40)
    close(rate(0), 0.5)
    assert rate(1) < rate(0)


def test_a_run_of_any_length_has_a_rate():
    for steps in (1, 2, 3):
        for kind in ("cosine", "wsd"):
            rate = make_schedule(ScheduleConfig(kind, warmup=0.6), 0.5, steps)
            assert all(0 < float(rate(step)) <= 0.5 for step in range(steps))


def test_the_warm_up_is_a_part_of_the_steps_and_never_all():
    config = ScheduleConfig(warmup=0.05)
    assert [warmup_steps(config, steps) for steps in (1, 20, 1000)] == [0, 1, 50]
    assert warmup_steps(ScheduleConfig("cosine", warmup=0.99), 10) == 9
