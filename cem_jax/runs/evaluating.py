"""The figures of a run, recomputed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from cem_jax.evaluation.perplexity import make_row_nats
from cem_jax.models.cost import count_parameters
from cem_jax.runs.figures import eigenvalues, split_figures
from cem_jax.runs.loading import LoadedRun, Which, load
from cem_jax.runs.text import Text

HELD_OUT = ("valid", "test")


def evaluate(
    path: Path,
    console: Console,
    *,
    which: Which = "latest",
    inner_steps: int | None = None,
    data: str | None = None,
) -> dict[str, Any]:
    """Figures under the names of ``summary.json``.

    Args:
        path: the folder of the run.
        console: what is said on the way goes there.
        which: the newest state or the best.
        inner_steps: T, where it is not the run's own.
        data: another text than the run's.

    Raises:
        ValueError: no such run or state, or the run's text is not what it was.
    """
    run = load(path, which=which, inner_steps=inner_steps, warn=_teller(console))
    with console.status("reading the text"):
        text = _text(run, data)
    count = count_parameters(run.config.model)
    with console.status("evaluating on the whole validation and test text"):
        figures = split_figures(make_row_nats(run.graph), run.params, text)
    return {
        "name": run.config.name,
        "step": run.step,
        "parameters": count.total,
        "parameters_without_embeddings": count.without_embedding,
        **figures,
        **eigenvalues(run.graph, run.params),
    }


def _teller(console: Console) -> Callable[[str], None]:
    return lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True)


def _text(run: LoadedRun, data: str | None) -> Text:
    own = run.config.data
    source = own if data is None else dataclasses.replace(own, source=data)
    text = Text.prepare(source, run.config.training.length, run.require_tokenizer(), HELD_OUT)
    if data is None and text.hashes() != run.hashes:
        raise ValueError(
            f"data: got a text {own.source!r} that is not the one the run was trained on (another "
            f"SHA-256), expected the same; restore it, or name it with --data to evaluate on it "
            f"as it is."
        )
    return text
