"""What is read off a record: ratios to the baseline, one for each round, and their spread."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cem_jax.runs.benchmark.record import Group, Measured


class Spread(NamedTuple):
    """The middle of some values and how far they lie apart.

    Attributes:
        median: half are below it.
        low: a quarter is below it.
        high: a quarter is above it.
        least: the smallest.
        most: the largest.
        rounds: how many there are.
    """

    median: float
    low: float
    high: float
    least: float
    most: float
    rounds: int


def spread(values: Sequence[float]) -> Spread:
    """Median, quartiles and extremes of one value or more."""
    assert values
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], values[0], values[0], 1)
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high, min(values), max(values), len(values))


class Quantity(NamedTuple):
    """Something a figure or a picture can show.

    Attributes:
        label: of an axis or a column, with its unit.
        of: the values of a side, one for each round, or a single one; none where it has none.
    """

    label: str
    of: Callable[[Group, Measured], list[float]]


def time_ratios(group: Group, side: Measured) -> list[float]:
    """Seconds over those of the baseline in the same round."""
    return [a / b for a, b in zip(side.seconds, group.base().seconds, strict=True)]


def figure_ratio(name: str) -> Callable[[Group, Measured], list[float]]:
    """A figure over that of the baseline, as a function of group and side."""

    def of(group: Group, side: Measured) -> list[float]:
        base = group.base().figures.get(name)
        # A baseline without temporaries has no ratio.
        return [side.figures[name] / base] if name in side.figures and base else []

    return of


def time_over_flops(group: Group, side: Measured) -> list[float]:
    """The ratio of times over the ratio of FLOPs: 1 where both do as many FLOPs a second."""
    flops = FLOP_RATIO.of(group, side)
    return [ratio / flops[0] for ratio in time_ratios(group, side)] if flops else []


def rate_ratios(name: str) -> Callable[[Group, Measured], list[float]]:
    """A figure per second over that of the baseline in the same round."""
    amounts = figure_ratio(name)

    def of(group: Group, side: Measured) -> list[float]:
        amount = amounts(group, side)
        return [amount[0] / ratio for ratio in time_ratios(group, side)] if amount else []

    return of


TIME_RATIO = Quantity("time / baseline", time_ratios)
FLOP_RATIO = Quantity("FLOPs / baseline", figure_ratio("flops"))
BYTES_RATIO = Quantity("temporary bytes / baseline", figure_ratio("temporary_bytes"))
TIME_OVER_FLOPS = Quantity("time ratio / FLOP ratio", time_over_flops)
RELATIVE_RATE = Quantity("FLOP/s / baseline", rate_ratios("flops"))
TOKEN_RATE = Quantity("tokens/s / baseline", rate_ratios("tokens"))
TEXT_RATE = Quantity("MB/s / baseline", rate_ratios("text_bytes"))
