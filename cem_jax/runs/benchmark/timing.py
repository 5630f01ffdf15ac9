"""Sides that take turns, so that whatever the machine does befalls all of them."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cem_jax.ops.checks import require_count

Clock = Callable[[], float]


@dataclasses.dataclass(frozen=True)
class Side:
    """One of the things that are compared.

    Attributes:
        name: of it.
        run: does the work once and returns when it is done; None where nothing is timed.
        figures: what is known of it without a clock, such as ``flops``.
    """

    name: str
    run: Callable[[], Any] | None
    figures: Mapping[str, int | float] = dataclasses.field(default_factory=dict)


def interleave(
    sides: Sequence[Side],
    rounds: int,
    *,
    at_least: float = 0.05,
    pause: float = 0.0,
    clock: Clock = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[dict[str, float]]:
    """Seconds of one run of each side, round by round, after a warm-up.

    In a round every side runs; the next round begins with another one. A drift of the machine then
    reaches all sides alike, and the ratio within a round hardly sees it.

    Args:
        sides: each with a ``run``.
        rounds: how many, at least 1.
        at_least: seconds that a side runs in a round: a short one runs several times, and the mean
            counts.
        pause: seconds before each side, in which the threads of the one before fall asleep.
        clock: seconds, from anywhere.
        sleep: how a pause is made.

    Raises:
        ValueError: no rounds, or two sides of one name.
    """
    require_count("rounds", rounds)
    names = [side.name for side in sides]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"sides: got {twice[0]!r} twice, expected each once; drop one.")
    calls = {side.name: _calls(side, at_least, clock) for side in sides}
    for number in range(rounds):
        seconds = {}
        for side in rotated(sides, number):
            sleep(pause)
            seconds[side.name] = _mean_seconds(side, calls[side.name], clock)
        yield seconds


def rotated(sides: Sequence[Side], by: int) -> list[Side]:
    """The order of a round."""
    cut = by % len(sides) if sides else 0
    return [*sides[cut:], *sides[:cut]]


def _calls(side: Side, at_least: float, clock: Clock) -> int:
    """How often a side runs in a round. The first run, which may compile, is not timed."""
    _mean_seconds(side, 1, clock)
    once = _mean_seconds(side, 1, clock)
    return max(1, math.ceil(at_least / max(once, 1e-6)))


def _mean_seconds(side: Side, calls: int, clock: Clock) -> float:
    assert side.run is not None
    start = clock()
    for _ in range(calls):
        side.run()
    return (clock() - start) / calls
