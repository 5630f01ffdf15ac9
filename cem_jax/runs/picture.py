"""The course of runs against tokens and against time, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SMOOTH = 20
"""Steps over which a training loss is averaged for the eye."""


class Course(NamedTuple):
    """The records of ``metrics.jsonl``, and the bits per byte of a nat per token.

    Bits per byte compare across tokenizers; the factor is that of the validation text.
    """

    records: list[dict[str, Any]]
    bits: float


def draw(path: Path, runs: dict[str, Course], references: dict[str, float] | None = None) -> None:
    """Write the loss of runs against training tokens and against seconds of training.

    Args:
        path: of the picture; the suffix says the format.
        runs: by label.
        references: bits per byte of horizontal lines, by label.
    """
    # A canvas of its own: the caller's pyplot state and backend are not ours.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 2, sharey=True)
    for number, (label, course) in enumerate(runs.items()):
        for axis, against in zip(axes, ("tokens", "seconds"), strict=True):
            _curves(axis, course, against, label, f"C{number}")
    for axis, name in zip(axes, ("training tokens", "seconds of training"), strict=True):
        axis.set_xlabel(name)
        axis.grid(alpha=0.3)
    axes[0].xaxis.set_major_formatter(EngFormatter(sep=""))
    _focus(axes[0], runs)
    for label, bits in (references or {}).items():
        # One beyond the curves would press them flat.
        if bits < axes[0].get_ylim()[1]:
            for axis in axes:
                _line(axis, f"{label} (test)", bits)
    axes[0].set_ylabel("bits per byte")
    if axes[0].get_legend_handles_labels()[0]:
        axes[0].legend()
    draft = path.with_name(f".{path.stem}.part{path.suffix}")
    figure.savefig(draft, dpi=130)
    draft.replace(path)


def _line(axis: Any, label: str, bits: float) -> None:
    axis.axhline(bits, color="0.4", linestyle=":", linewidth=1)
    where = ("axes fraction", "data")
    axis.annotate(label, (0.01, bits), xycoords=where, va="bottom", fontsize="small")


def _curves(axis: Any, course: Course, against: str, label: str, colour: str) -> None:
    steps = [record for record in course.records if "loss" in record]
    if not steps:
        return
    where = _positions(steps, against)
    loss = course.bits * np.array([record["loss"] for record in steps])
    width = min(SMOOTH, len(loss))
    smooth = np.convolve(loss, np.ones(width) / width, mode="valid")
    # Where there is little to smooth, the steps themselves are the curve.
    alpha = 0.15 if len(loss) > 2 * SMOOTH else 0.7
    axis.plot(where, loss, color=colour, alpha=alpha, linewidth=0.8)
    axis.plot(where[width - 1 :], smooth, color=colour, label=f"{label}: training")
    valid = [record for record in course.records if "valid_loss" in record]
    # Also where the step before an evaluation was skipped, and has no loss of its own.
    at, done = ([record["step"] for record in records] for records in (valid, steps))
    axis.plot(
        np.interp(at, done, where),
        [course.bits * record["valid_loss"] for record in valid],
        "o--",
        color=colour,
        markerfacecolor="white",
        label=f"{label}: validation",
    )


def _positions(steps: list[dict[str, Any]], against: str) -> np.ndarray:
    if against == "tokens":
        return np.cumsum([record["tokens"] for record in steps])
    seconds = np.array([record["seconds"] for record in steps])
    # Metrics are fetched several steps at a time: the steps of one fetch share its clock.
    last = np.append(seconds[1:] != seconds[:-1], True)
    index = np.arange(len(seconds))
    return np.interp(index, np.append(-1, index[last]), np.append(0.0, seconds[last]))


def _focus(axis: Any, runs: dict[str, Course]) -> None:
    """Cut the first steep fall off, which would press the rest flat."""
    tops = []
    for course in runs.values():
        loss = [record["loss"] for record in course.records if "loss" in record]
        if len(loss) > 2 * SMOOTH:
            tops.append(course.bits * loss[len(loss) // 20])
    if tops:
        axis.set_ylim(top=max(tops))
