"""A sweep as a picture: the course of each variant, and its differences from the baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cem_jax.runs.colours import COLOURS
from cem_jax.runs.sweep.results import Result, by_variant
from cem_jax.runs.sweep.statistics import paired

LINES = ("-", "--", ":", "-.")
"""More variants than colours differ by their lines."""


def draw_sweep(path: Path, found: Sequence[Result], baseline: str) -> None:
    """Write `sweep_figure`, whole or not at all; the suffix says the format."""
    draft = path.with_name(f".{path.stem}.part{path.suffix}")
    sweep_figure(found, baseline).savefig(draft, dpi=130)
    draft.replace(path)


def sweep_figure(found: Sequence[Result], baseline: str) -> Any:
    """Validation against training tokens, and paired differences at the end.

    The band of a course is from the least to the largest of the seeds, the interval of a
    difference holds 95 %.

    Args:
        found: runs that have ended.
        baseline: the variant that the others are compared with.

    Returns:
        A figure of matplotlib, with two axes.
    """
    # A canvas of its own: the caller's pyplot state and backend are not ours.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(result.variant for result in found))
    height = max(4.2, 0.35 * len(names) + 1.5)
    figure = Figure(figsize=(12, height), layout="constrained")
    FigureCanvasAgg(figure)
    course, ends = figure.subplots(1, 2)
    for number, name in enumerate(names):
        _course(course, [result for result in found if result.variant == name], name, number)
    _differences(ends, found, names, baseline)
    course.set_xlabel("training tokens (millions)")
    course.set_ylabel("validation (bits per byte)")
    _cut_off_the_start(course, found)
    course.grid(alpha=0.3)
    course.legend(fontsize="small")
    return figure


def validation_course(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """Training tokens and bits per byte at each evaluation on the way, and at the end."""
    bits = result.summary["valid_bits_per_byte"] / result.summary["valid_loss"]
    steps = [record for record in result.records if "tokens" in record]
    # Of a step that was skipped nothing was learnt.
    learnt = np.cumsum([record["tokens"] if "loss" in record else 0 for record in steps])
    tokens = dict(zip((record["step"] for record in steps), learnt, strict=True))
    points = [
        (tokens[record["step"]], bits * record["valid_loss"])
        for record in result.records
        if "valid_loss" in record and record["step"] in tokens
    ]
    where, value = np.array(points, np.float64).reshape(-1, 2).T
    return where, value


def _course(axis: Any, group: list[Result], name: str, number: int) -> None:
    courses = [validation_course(result) for result in group]
    longest = max(len(where) for where, _ in courses)
    whole = [course for course in courses if len(course[0]) == longest]
    values = np.stack([value for _, value in whole])
    where = whole[0][0] / 1e6
    style = {"color": COLOURS[number % len(COLOURS)]}
    line = LINES[number // len(COLOURS) % len(LINES)]
    axis.plot(where, values.mean(axis=0), line, marker="o", markersize=3, label=name, **style)
    axis.fill_between(where, values.min(axis=0), values.max(axis=0), alpha=0.2, **style)


def _cut_off_the_start(axis: Any, found: Sequence[Result]) -> None:
    """Show what variants differ in, not the fall from chance that they share."""
    values = [validation_course(result)[1] for result in found]
    least = min((value.min() for value in values if len(value)), default=math.nan)
    second = max((value[1] for value in values if len(value) > 1), default=math.nan)
    if second > least:
        axis.set_ylim(least - 0.05 * (second - least), second + 0.05 * (second - least))
        axis.set_title("on the way, from the second evaluation on", fontsize="small")


def _differences(axis: Any, found: Sequence[Result], names: list[str], baseline: str) -> None:
    values = by_variant(found)
    base = values.get(baseline, {})
    others = [name for name in names if name != baseline]
    for row, name in enumerate(others):
        colour = COLOURS[names.index(name) % len(COLOURS)]
        single = [value - base[seed] for seed, value in values[name].items() if seed in base]
        axis.plot(single, [row] * len(single), "o", color=colour, alpha=0.35, markersize=4)
        whole = paired(values[name], base)
        if whole.pairs:
            axis.plot([whole.mean], [row], "D", color=colour)
            axis.plot([whole.low, whole.high], [row, row], color=colour, linewidth=2)
    axis.axvline(0, color="0.4", linewidth=1)
    axis.set_yticks(range(len(others)), others)
    axis.invert_yaxis()
    axis.grid(alpha=0.3, axis="x")
    axis.set_xlabel(f"difference from {baseline} (bits per byte; left is better)")
    axis.set_title("paired by seed: dots seeds, diamond mean, line 95 % interval", fontsize="small")
