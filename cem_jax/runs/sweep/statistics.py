"""What seeds say: means with their spread, and paired differences with an interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

CONFIDENCE = 0.95


class Spread(NamedTuple):
    """Values over seeds.

    Attributes:
        seeds: n.
        mean: their mean.
        deviation: the sample standard deviation; NaN of fewer than two.
    """

    seeds: int
    mean: float
    deviation: float


class Paired(NamedTuple):
    """The mean of differences over the seeds that both sides have, with its interval.

    Attributes:
        pairs: how many.
        mean: of the differences; NaN without a pair.
        low: the lower end of the 95 % interval; NaN of fewer than two pairs.
        high: the upper end.
    """

    pairs: int
    mean: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Mean and sample standard deviation."""
    count = len(values)
    mean = math.fsum(values) / count if count else math.nan
    if count < 2:
        return Spread(count, mean, math.nan)
    return Spread(count, mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (count - 1)))


def half_width(found: Spread) -> float:
    """Half of Student's 95 % interval of the mean, t s / sqrt(n); NaN of fewer than two."""
    # Imported here: the rest of a sweep needs no SciPy, which is slow to load.
    from scipy.stats import t

    if found.seeds < 2:
        return math.nan
    quantile = float(t.ppf((1 + CONFIDENCE) / 2, found.seeds - 1))
    return quantile * found.deviation / math.sqrt(found.seeds)


def paired(values: Mapping[int, float], others: Mapping[int, float]) -> Paired:
    """values - others by seed: their mean and its interval; see `half_width`.

    Args:
        values: by seed.
        others: by seed, of what they are compared with; seeds that one side lacks are left out.
    """
    found = spread([value - others[seed] for seed, value in values.items() if seed in others])
    half = half_width(found)
    return Paired(found.seeds, found.mean, found.mean - half, found.mean + half)
