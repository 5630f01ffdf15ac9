"""How much of the gap between the trivial and the Bayes predictor a model closes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cem_jax.runs.sweep.statistics import half_width, spread
from experiments.gaussian_process.plan import CASES, name_of
from experiments.gaussian_process.prior import FIVE, ONE
from experiments.gaussian_process.results import FOLDER, load_floor, load_results

PARTS = {"overall": slice(None), "late": slice(-16, None)}
"""Positions: all of them, or the last quarter of the 64."""


class Interval(NamedTuple):
    """A mean, and half the width of its 95 % interval; NaN where there is one value only."""

    mean: float
    half: float


def share(model: Any, floor: dict[str, Any], part: str = "overall") -> float:
    """(M_0 - M) / (M_0 - M_B), M the mean squared error over the positions of the part.

    M_0 is that of the trivial predictor (share 0), M_B that of the Bayes predictor (share 1), both
    on the same sequences. The noise in the values adds the same to all three, so that in
    expectation the share is that of the error against the function without noise.

    Args:
        model: its error at each position.
        floor: those of `results.load_floor`.
        part: a name in `PARTS`.
    """
    where = PARTS[part]
    errors = (model, floor["trivial"], floor["bayes"])
    mine, trivial, bayes = (float(np.mean(one[where])) for one in errors)
    return (trivial - mine) / (trivial - bayes)


def shares(part: str = "overall", folder: Path = FOLDER) -> dict[str, dict[int, float]]:
    """The share of the gap that each finished run closes, by name and seed."""
    floors = {prior.name: load_floor(prior, folder) for prior in (ONE, FIVE)}
    return {
        name: {
            seed: share(one["test_mse"], floors[CASES[name].prior.name], part)
            for seed, one in runs.items()
        }
        for name, runs in load_results(folder).items()
    }


def paired_differences(
    part: str = "overall", folder: Path = FOLDER
) -> dict[tuple[str, int], dict[str, dict[int, float]]]:
    """Share closed minus that of T = 1 with the same seed, prior and depth.

    Returns:
        By prior's name and depth, then by kind (``"cem-t2"``, ``"mha"``), then by seed. Seeds
        without a finished T = 1 are left out.
    """
    found = shares(part, folder)
    differences: dict[tuple[str, int], dict[str, dict[int, float]]] = {}
    for name, by_seed in found.items():
        case = CASES[name]
        base = found.get(name_of(case.prior, case.layers, "cem-t1"), {})
        if case.kind == "cem-t1" or not base.keys() & by_seed.keys():
            continue
        paired = {seed: value - base[seed] for seed, value in by_seed.items() if seed in base}
        differences.setdefault((case.prior.name, case.layers), {})[case.kind] = paired
    return differences


def interval(values: Iterable[float]) -> Interval:
    """Mean and 95 % t interval over seeds of training; the test draw is one and the same."""
    found = spread([*values])
    return Interval(found.mean, half_width(found))


def percent(value: Interval, sign: str = "") -> str:
    """Mean ± half of the interval, in percent."""
    mean = f"{100 * value.mean:{sign}.2f}"
    return mean if math.isnan(value.half) else f"{mean} ± {100 * value.half:.2f}"
