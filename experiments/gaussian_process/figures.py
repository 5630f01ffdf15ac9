"""Two pictures of the results; their titles are computed from what they show."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from cem_jax.runs.colours import COLOURS, MARKERS
from experiments.drawing import canvas, save
from experiments.gaussian_process.gap import interval, paired_differences, shares
from experiments.gaussian_process.plan import DEPTHS, STEPS, name_of
from experiments.gaussian_process.prior import ONE
from experiments.gaussian_process.results import FOLDER, load_floor, load_results

FIGURES = Path(__file__).parent / "figures"
EDGES = (0, 1, 2, 3, 5, 8, 12, 18, 27, 40, 64)
"""Numbers of pairs that share a point of the curve, which a draw of 512 leaves smooth."""

MODELS = {"CEM, T = 1": "cem-t1", "CEM, T = 8": "cem-t8", "multi-head attention": "mha"}


def draw_figures(folder: Path = FOLDER, out: Path = FIGURES) -> None:
    """Both, as PNG and SVG, as far as their runs are finished."""
    draw_positions(folder, out / "rmse-against-position")
    draw_steps(folder, out / "gap-against-steps")


def draw_positions(folder: Path, path: Path) -> None:
    """RMSE against the number of pairs seen, one layer in 1-D, beside both floors."""
    floor, runs = load_floor(ONE, folder), load_results(folder)
    figure, axis = canvas(8, 5)
    centres = [(low + high - 1) / 2 for low, high in itertools.pairwise(EDGES)]
    lines = {"prior mean 0": floor["trivial"], "Bayes, hyper-parameters known": floor["known"]}
    lines["Bayes, hyper-parameters integrated"] = floor["bayes"]
    for (label, error), dashes in zip(lines.items(), (":", "--", "-"), strict=True):
        axis.plot(centres, _binned(error), dashes, color="black", linewidth=1.2, label=label)
    late = {}
    for number, (label, kind) in enumerate(MODELS.items()):
        seeds = runs.get(name_of(ONE, 1, kind), {})
        if seeds:
            error = np.mean([one["test_mse"] for one in seeds.values()], axis=0)
            late[label] = np.sqrt(np.mean(error[-16:]) / np.mean(floor["bayes"][-16:]))
            colour, marker = COLOURS[number], MARKERS[number]
            axis.plot(centres, _binned(error), color=colour, marker=marker, label=label)
    axis.set_xscale("symlog", linthresh=1, base=2)
    axis.set_xticks([0, 1, 2, 4, 8, 16, 32, 64], ["0", "1", "2", "4", "8", "16", "32", "64"])
    axis.minorticks_off()
    axis.set_ylim(bottom=0)
    axis.set_xlabel("pairs before the prediction")
    axis.set_ylabel("RMSE, in standard deviations of the function")
    axis.legend()
    text = f"{min(late.values()) - 1:.0%} to {max(late.values()) - 1:.0%}" if late else "-"
    _finish(figure, path, f"After 48 pairs, one layer has an RMSE {text} above the Bayes predictor")


def draw_steps(folder: Path, path: Path) -> None:
    """The share of the gap closed against T, and the paired difference to T = 1."""
    found, differences = shares(folder=folder), paired_differences(folder=folder)
    figure, (left, right) = canvas(11, 5, columns=2)
    message: list[float] = []
    for number, layers in enumerate(DEPTHS):
        style = {"color": COLOURS[number], "marker": MARKERS[number], "capsize": 3}
        label = f"{layers} layer{'s' if layers > 1 else ''}"
        values = {kind: found.get(name_of(ONE, layers, kind), {}) for kind in KINDS}
        _bars(left, values, number, label, style)
        paired = differences.get((ONE.name, layers), {})
        _bars(right, paired, number, label, style)
        if paired.get("cem-t8"):
            message.append(100 * interval(paired["cem-t8"].values()).mean)
    right.axhline(0, color="0.4", linewidth=1)
    for axis in (left, right):
        axis.set_xticks(range(len(KINDS)), list(KINDS.values()))
        axis.set_xlabel("T, inner steps of CEM attention; or multi-head attention (MHA)")
    left.set_ylabel("share of the gap to the Bayes predictor closed, %")
    right.set_ylabel("minus T = 1 at the same seed, points (95 %)")
    left.legend()
    _finish(figure, path, _said_of_steps(message))


def _said_of_steps(points: list[float]) -> str:
    """The message, of T = 8 minus T = 1 at each depth, in points."""
    if not points:
        return "T = 8 beside T = 1: not run"
    low, high = sorted((min(points), max(points)), key=abs)
    sign = {(True, True): "less", (False, False): "more"}.get((low < 0, high < 0))
    if sign is None:
        return "T = 8 closes more of the gap than T = 1 at one depth, and less at the other"
    return f"T = 8 closes {abs(low):.1f} to {abs(high):.1f} points {sign} of the gap than T = 1"


KINDS = {f"cem-t{steps}": str(steps) for steps in STEPS} | {"mha": "MHA"}


def _bars(
    axis: Any, values: dict[str, dict[int, float]], number: int, label: str, style: dict[str, Any]
) -> None:
    """Means and 95 % t intervals over seeds, in percent; CEM's are joined."""
    for kinds, line in ((tuple(KINDS)[:-1], "-"), (("mha",), "")):
        shown = [kind for kind in kinds if values.get(kind)]
        where = [list(KINDS).index(kind) + 0.12 * (number - 0.5) for kind in shown]
        points = [interval(values[kind].values()) for kind in shown]
        axis.errorbar(
            where,
            [100 * point.mean for point in points],
            [100 * point.half for point in points],
            linestyle=line,
            label=label if line else None,
            **style,
        )


def _binned(error: Any) -> list[float]:
    parts = [error[low:high] for low, high in itertools.pairwise(EDGES)]
    return [float(np.sqrt(np.mean(part))) for part in parts]


def _finish(figure: Any, path: Path, title: str) -> None:
    figure.suptitle(title)
    for axis in figure.axes:
        axis.grid(alpha=0.3)
    save(figure, path)
