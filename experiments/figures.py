"""Figures of the language models, from committed results alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cem_jax.runs.colours import COLOURS
from cem_jax.runs.sweep.statistics import paired
from experiments.drawing import save
from experiments.language_model.records import deciding, figures


def canvas(width: float, height: float) -> tuple[Figure, Any]:
    """A figure with one axis, outside pyplot."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def draw_differences(records: Sequence[dict[str, Any]], folder: Path) -> None:
    """Every variant's paired difference from the Llama, beside its parameters."""
    figure_name = deciding(list(records))
    values = figures(list(records), figure_name)
    base = values.get("llama", {})
    size = figures(list(records), "parameters_without_embeddings")
    names = [name for name in values if name != "llama"]
    names.sort(key=lambda name: paired(values[name], base).mean)
    figure, axis = canvas(9, 0.32 * len(names) + 1.6)
    for row, name in enumerate(names):
        effect = paired(values[name], base)
        dots = [value - base[seed] for seed, value in values[name].items() if seed in base]
        axis.plot(dots, [row] * len(dots), "o", color=COLOURS[5], markersize=4)
        axis.plot([effect.low, effect.high], [row, row], color=COLOURS[0], linewidth=2)
        axis.plot([effect.mean], [row], "D", color=COLOURS[0], markersize=5)
    thousand = {name: round(next(iter(size[name].values())) / 1000) for name in names}
    axis.set_yticks(range(len(names)), [f"{name}  ({thousand[name]}k)" for name in names])
    axis.axvline(0, color="0.4", linewidth=1)
    axis.grid(alpha=0.3, axis="x")
    axis.set_xlabel(f"{figure_name.split('_')[0]} bits per byte minus Llama's (left is better)")
    axis.set_title(
        "How far each variant is from the Llama, with its parameters outside the embedding\n"
        "dots: seeds, diamond: mean, line: 95 % interval of paired differences",
        fontsize="medium",
    )
    save(figure, folder / "language-models-differences")


COURSES = ("llama", "attention-none-t1", "mlp-nonlinear-t1", "cem-t1", "cem-t2", "cem-t2-p")


def draw_courses(records: Sequence[dict[str, Any]], folder: Path) -> None:
    """Validation against forward and backward FLOPs: equal budgets are vertical lines."""
    figure, axis = canvas(8, 5)
    for number, name in enumerate(COURSES):
        runs = [record for record in records if record["variant"] == name]
        if not runs:
            continue
        bits = runs[0]["valid_bits_per_byte"] / runs[0]["valid_loss"]
        training = runs[0]["config"]["training"]
        flops = 3 * runs[0]["forward_flops_per_token"] * training["batch"] * training["length"]
        steps = np.array([step for step, _ in runs[0]["course"]["validation"]])
        curves = [[loss for _, loss in run["course"]["validation"]] for run in runs]
        mean = bits * np.mean(curves, axis=0)
        axis.plot(steps * flops / 1e12, mean, "o-", markersize=3, color=COLOURS[number], label=name)
    axis.set_xlabel("training compute (TFLOP: forward and derivative, matrix products)")
    axis.set_ylabel("validation (bits per byte, part of the text)")
    axis.grid(alpha=0.3)
    if axis.get_legend_handles_labels()[0]:
        axis.legend()
    axis.set_title("Equal compute: what each family has reached", fontsize="medium")
    save(figure, folder / "language-models-courses")
