"""What `cem train` says before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from cem_jax.cli.train_text import Text
from cem_jax.evaluation.perplexity import Perplexity
from cem_jax.models.cost import ParameterCount
from cem_jax.training import TrainingConfig

FIGURES = {"loss": 4, "perplexity": 2, "bits_per_byte": 4}
"""The figures of a split, with the digits that are shown."""


def plan(name: str, count: ParameterCount, training: TrainingConfig, text: Text, out: Path) -> str:
    """The work ahead."""
    tokens = training.steps * training.batch * training.length
    available = text.train.predicted
    held_out = text.valid.predicted + text.test.predicted
    return (
        f"{name}: {count.total:,} parameters ({count.without_embedding:,} without embeddings) on "
        f"the corpus {text.corpus.name!r}, {text.tokenizer.vocab_size:,} pieces\n"
        f"{training.steps:,} steps of {training.batch} x {training.length} tokens: "
        f"{tokens / 1e6:.2f} M tokens, {tokens / available:.2f} epochs of {available / 1e6:.2f} M; "
        f"then validation and test on {held_out:,} tokens\n"
        f"run folder: {out}"
    )


def flat(split: str, figures: Perplexity) -> dict[str, float]:
    """Figures under the names of ``summary.json``, such as ``test_loss``."""
    return {f"{split}_{name}": getattr(figures, name) for name in FIGURES}


def table(summary: dict[str, Any]) -> Table:
    """The summary for the eye."""
    result = Table(title=f"cem train: {summary['model']}", show_header=False)
    result.add_column()
    result.add_column(justify="right")
    for label, value in (
        ("parameters", f"{summary['parameters']:,}"),
        ("parameters without embeddings", f"{summary['parameters_without_embeddings']:,}"),
        ("training tokens", f"{summary['train_tokens']:,}"),
        ("tokens per second", f"{summary['tokens_per_second']:,.0f}"),
        ("seconds in all", f"{summary['seconds']:.0f}"),
    ):
        result.add_row(label, value)
    for split in ("valid", "test"):
        for name, digits in FIGURES.items():
            label = f"{split} {name.replace('_', ' ')}"
            result.add_row(label, f"{summary[f'{split}_{name}']:.{digits}f}")
    # Where it is negative, a step of that layer may go uphill.
    for name in ("attention", "mlp"):
        if f"least_eigenvalue_{name}" in summary:
            value = summary[f"least_eigenvalue_{name}"]
            result.add_row(f"least eigenvalue of P, {name}", f"{value:.4f}")
    return result
