"""A variant against the Llama that trains for as long, by the measured time of a step.

A schedule ends with a decay, so that a run cannot be read off in its middle: the Llama was trained
for two lengths, and its loss at another is on the line through both, in the logarithm of the
steps. Between the two lengths that interpolates; beyond, it is said to extrapolate.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from cem_jax.runs.sweep.statistics import Paired, paired
from experiments.language_model.records import STEP_TIMES
from experiments.pages import read_json

SHORT, LONG = ("llama", 2000), ("llama-3527", 3527)
"""The two lengths of the Llama: the names of its variants, and their steps."""


class EqualTime(NamedTuple):
    """A variant minus the Llama that trains for as long.

    Attributes:
        effect: the paired difference.
        steps: of that Llama.
        extrapolated: whether they are outside of the two lengths.
    """

    effect: Paired
    steps: float
    extrapolated: bool


def step_ratio(variant: str, path: Path = STEP_TIMES) -> float | None:
    """The time of a step over the Llama's; None where it was not measured."""
    if not path.is_file():
        return None
    times = read_json(path)["steps"]
    return times[variant]["ratio"] if variant in times else None


def equal_time(variant: str, ratio: float, values: dict[str, dict[int, float]]) -> EqualTime:
    """The difference to the Llama with ``ratio`` times the steps.

    Args:
        variant: its name; it ran for as many steps as the shorter Llama.
        ratio: of the times of a step.
        values: bits per byte, by variant and seed.
    """
    short, long = (values.get(name, {}) for name, _ in (SHORT, LONG))
    weight = math.log(ratio) / math.log(LONG[1] / SHORT[1])
    llama = {
        seed: value + weight * (long[seed] - value) for seed, value in short.items() if seed in long
    }
    steps = ratio * SHORT[1]
    return EqualTime(
        paired(values.get(variant, {}), llama), steps, not SHORT[1] <= steps <= LONG[1]
    )
