"""Turns, rounds and seconds, by a clock of our own."""

import pytest

from cem_jax.runs.benchmark.timing import Side, interleave, rotated


class World:
    """A clock that work moves, and a log of what ran."""

    def __init__(self):
        self.now, self.log, self.slower = 0.0, [], 1.0

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.log.append(f"sleep {seconds}")

    def side(self, name, seconds):
        def run():
            self.now += seconds * self.slower
            self.log.append(name)

        return Side(name, run)

    def rounds(self, sides, count, **options):
        return list(interleave(sides, count, clock=self.clock, sleep=self.sleep, **options))


def test_each_round_has_the_seconds_of_every_side():
    world = World()
    found = world.rounds([world.side("a", 1.0), world.side("b", 3.0)], 4)
    assert found == [{"a": 1.0, "b": 3.0}] * 4


def test_the_first_of_a_round_is_another_one_each_time():
    world = World()
    world.rounds([world.side(name, 1.0) for name in "abc"], 4)
    ran = [name for name in world.log if not name.startswith("sleep")]
    assert ran[:6] == ["a", "a", "b", "b", "c", "c"]  # the warm-up
    assert "".join(ran[6:]) == "abcbcacababc"


def test_what_runs_once_to_compile_does_not_count():
    world, first = World(), True

    def run():
        nonlocal first
        world.now += 100.0 if first else 2.0
        first = False

    assert world.rounds([Side("a", run)], 2) == [{"a": 2.0}] * 2


def test_a_short_side_runs_several_times_and_the_mean_counts():
    world = World()
    found = world.rounds([world.side("short", 0.25), world.side("long", 5.0)], 1, at_least=1.0)
    assert found == [{"short": 0.25, "long": 5.0}]
    assert world.log.count("short") == 2 + 4
    assert world.log.count("long") == 2 + 1


def test_a_drift_of_the_machine_leaves_ratios_alone():
    world, ratios = World(), []
    sides = [world.side("a", 1.0), world.side("b", 3.0)]
    for seconds in interleave(sides, 5, clock=world.clock, sleep=world.sleep):
        ratios.append(seconds["b"] / seconds["a"])
        world.slower *= 2
    assert ratios == [3.0] * 5


def test_a_pause_comes_before_each_side_and_is_not_timed():
    world = World()
    found = world.rounds([world.side("a", 1.0), world.side("b", 1.0)], 1, pause=0.5)
    assert world.log[-4:] == ["sleep 0.5", "a", "sleep 0.5", "b"]
    assert found == [{"a": 1.0, "b": 1.0}]


def test_rotation_of_nothing_is_nothing():
    assert rotated([], 3) == []


def test_misuse_is_told():
    world = World()
    with pytest.raises(ValueError, match="rounds: got 0"):
        world.rounds([world.side("a", 1.0)], 0)
    with pytest.raises(ValueError, match="sides: got 'a' twice"):
        world.rounds([world.side("a", 1.0)] * 2, 1)
