"""Figures of the language models, from committed results alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cem_jax.runs.colours import COLOURS, MARKERS
from cem_jax.runs.sweep.statistics import paired, spread
from experiments.drawing import canvas, save
from experiments.language_model.records import deciding, figures, text_of, training_flops

KINDS = ("llama", "attention", "mlp", "cem", "looped", "context", "paper")
"""How the names of variants begin; each kind has a colour and a marker."""


def draw_differences(records: list[dict[str, Any]], folder: Path) -> None:
    """Every variant's paired difference from the Llama, beside its parameters."""
    values = figures(records, deciding(records))
    base = values.get("llama", {})
    size = figures(records, "parameters_without_embeddings")
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
    axis.set_xlabel(f"bits per byte of {text_of(records)} text minus Llama's (left is better)")
    axis.set_title(
        "How far each variant is from the Llama, with its parameters outside the embedding\n"
        "dots: seeds, diamond: mean, line: 95 % interval of paired differences",
        fontsize="medium",
    )
    save(figure, folder / "language-models-differences")


def draw_compute(records: list[dict[str, Any]], folder: Path) -> None:
    """What each variant ends with against the FLOPs of its training.

    Ends alone: a schedule decays at its end, so that a run cannot be read off in its middle.
    """
    values, compute = figures(records, deciding(records)), training_flops(records)
    figure, axis = canvas(9, 6)
    for number, kind in enumerate(KINDS):
        names = [name for name in values if name.split("-")[0] == kind]
        ends = [spread(list(values[name].values())) for name in names]
        where = [compute[name] / 1e12 for name in names]
        axis.errorbar(
            where,
            [end.mean for end in ends],
            [end.deviation for end in ends],
            fmt=MARKERS[number],
            color=COLOURS[number],
            capsize=3,
            label=kind,
        )
        for name, x, end in zip(names, where, ends, strict=True):
            axis.annotate(name, (x, end.mean), (4, 3), textcoords="offset points", fontsize=6)
    # Room for the names on the right.
    axis.margins(x=0.12)
    axis.set_xlabel("compute of the training (TFLOP: products of the model, derivative included)")
    axis.set_ylabel(f"bits per byte of {text_of(records)} text, at the end")
    axis.grid(alpha=0.3)
    if axis.get_legend_handles_labels()[0]:
        axis.legend()
    axis.set_title(
        "What each variant reaches for its compute (mean and standard deviation of seeds)",
        fontsize="medium",
    )
    save(figure, folder / "language-models-compute")
