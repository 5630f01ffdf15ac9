"""What is said of a run before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from cem_jax.models.cost import ParameterCount
from cem_jax.runs.config import RunConfig
from cem_jax.runs.figures import FIGURES
from cem_jax.runs.text import Text


def plan(
    config: RunConfig,
    count: ParameterCount,
    text: Text,
    seconds: float,
    out: Path,
    splits: tuple[str, ...],
) -> str:
    """The work ahead, the expected minutes first."""
    training = config.training
    tokens = training.steps * training.batch * training.length
    available = text.rows["train"].predicted
    held_out = sum(text.rows[split].predicted for split in splits)
    minutes = round(seconds / 60)
    ahead = f"about {minutes} minutes" if minutes > 1 else "about a minute"
    return (
        f"{ahead}, as this machine is now\n"
        f"{config.name}: {count.total:,} parameters ({count.without_embedding:,} without "
        f"embeddings) on the corpus {text.corpus.name!r}, {text.tokenizer.vocab_size:,} pieces\n"
        f"{training.steps:,} steps of {training.batch} x {training.length} tokens: "
        f"{tokens / 1e6:.2f} M tokens, {tokens / available:.2f} epochs of {available / 1e6:.2f} M; "
        f"then {' and '.join(splits)} on {held_out:,} tokens\n"
        f"run folder: {out}"
    )


def table(summaries: list[dict[str, Any]], title: str) -> Table:
    """Summaries of runs side by side, for the eye; names are shown as they are."""
    result = Table(title=escape(title))
    result.add_column("")
    for summary in summaries:
        result.add_column(escape(str(summary["name"])), justify="right")
    for label, key, form in ROWS:
        if any(key in summary for summary in summaries):
            result.add_row(label, *(_cell(summary, key, form) for summary in summaries))
    for key in dict.fromkeys(key for summary in summaries for key in summary if "/" in key):
        label = "  " + key.replace("/", ", ", 1).replace("_", " ", 3)
        result.add_row(escape(label), *(_cell(summary, key, ".4f") for summary in summaries))
    for beside in (_by_source, _references):
        for name in dict.fromkeys(name for summary in summaries for name in beside(summary)):
            cells = [_cell(beside(summary), name, ".4f") for summary in summaries]
            result.add_row(f"  {escape(name)}", *cells)
    return result


ROWS = (
    ("parameters", "parameters", ",.0f"),
    ("parameters without embeddings", "parameters_without_embeddings", ",.0f"),
    ("forward FLOPs per token", "forward_flops_per_token", ",.0f"),
    ("training tokens", "train_tokens", ",.0f"),
    ("steps skipped, not finite", "skipped_steps", ",.0f"),
    ("tokens per second", "tokens_per_second", ",.0f"),
    # Of the peak of the devices, where it is known.
    ("model FLOPs utilisation", "mfu", ".1%"),
    ("seconds in all", "seconds", ",.0f"),
    # Where it is negative, a step of that layer may go uphill.
    ("least eigenvalue of P, attention", "least_eigenvalue_attention", ".4f"),
    ("least eigenvalue of P, mlp", "least_eigenvalue_mlp", ".4f"),
    *(
        (f"{split} {name.replace('_', ' ')}", f"{split}_{name}", f".{digits}f")
        for split in ("valid", "test")
        for name, digits in FIGURES.items()
    ),
)
"""Label, key in ``summary.json`` and format of each row."""


def _by_source(summary: dict[str, Any]) -> dict[str, float]:
    return {
        f"{source}, {split} {name.replace('_', ' ')}": figures[f"{split}_{name}"]
        for split in ("valid", "test")
        for source, figures in summary.get(f"{split}_by_source", {}).items()
        for name in ("loss", "bits_per_byte")
    }


def _references(summary: dict[str, Any]) -> dict[str, float]:
    return {
        f"Kneser-Ney {order}, {vocabulary}, test bits per byte": bits
        for vocabulary, orders in summary.get("references", {}).items()
        for order, bits in orders.items()
    }


def _cell(values: dict[str, Any], key: str, form: str) -> str:
    return format(values[key], form) if key in values else "-"
