"""A record as a picture with one message: ratios with their spread, or a figure against a size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cem_jax.runs.benchmark.quantities import Quantity, spread
from cem_jax.runs.benchmark.record import Group, Measured, Record
from cem_jax.runs.colours import COLOURS, MARKERS


class Line(NamedTuple):
    """Points that belong together."""

    label: str
    x: Sequence[int | float]
    y: Sequence[int | float]


def draw_ratios(
    record: Record, path: Path, quantity: Quantity, title: str, target: float | None = None
) -> None:
    """A row for each side but the baselines: median, quartiles (thick) and extremes (thin).

    Args:
        record: what was measured.
        path: of the picture; the suffix says the format.
        quantity: what is shown.
        title: the message.
        target: where a line is drawn; none without.
    """
    values = [
        (_label(record, group, side), spread(quantity.of(group, side)))
        for group in record.groups
        for side in group.sides
        if side.name != group.baseline and quantity.of(group, side)
    ]
    figure, axis = _canvas(1.6 + 0.28 * len(values))
    for row, (_, middle) in enumerate(values):
        axis.plot([middle.least, middle.most], [row, row], color=COLOURS[0], linewidth=1)
        axis.plot([middle.low, middle.high], [row, row], color=COLOURS[0], linewidth=4)
        axis.plot(middle.median, row, "o", color="white", markeredgecolor=COLOURS[0])
    axis.axvline(1, color="0.4", linewidth=1)
    if target is not None:
        axis.axvline(target, color=COLOURS[1], linestyle="--", label=f"target {target:g}")
        axis.legend(loc="lower right")
    axis.set_yticks(range(len(values)), [label for label, _ in values])
    axis.invert_yaxis()
    axis.set_xlabel(f"{quantity.label} (median, quartiles, extremes)")
    _finish(figure, axis, path, title)


def draw_lines(
    lines: Sequence[Line], path: Path, *, x: str, y: str, title: str, log: bool = False
) -> None:
    """Lines against a size.

    Args:
        lines: what is drawn.
        path: of the picture.
        x: label of the axis, with its unit.
        y: likewise.
        title: the message.
        log: whether both axes are logarithmic.
    """
    figure, axis = _canvas(4.2)
    for number, line in enumerate(lines):
        style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
        axis.plot(line.x, line.y, label=line.label, **style)
    if log:
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
    axis.set_xticks(sorted({value for line in lines for value in line.x}))
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.minorticks_off()
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.legend()
    _finish(figure, axis, path, title)


def _label(record: Record, group: Group, side: Measured) -> str:
    """Group and side, without what all rows have in common."""
    alone = {s.name for g in record.groups for s in g.sides if s.name != g.baseline}
    if len(record.groups) == 1:
        return side.name
    return group.name if len(alone) == 1 else f"{group.name}: {side.name}"


def _canvas(height: float) -> tuple[Any, Any]:
    # A canvas of its own: the caller's pyplot state and backend are not ours.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def _finish(figure: Any, axis: Any, path: Path, title: str) -> None:
    axis.set_title(title)
    axis.grid(alpha=0.3)
    draft = path.with_name(f".{path.stem}.part{path.suffix}")
    figure.savefig(draft, dpi=130)
    draft.replace(path)
