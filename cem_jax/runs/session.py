"""A run from its config to its folder: text in, a trained model and its figures out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.console import Console

from cem_jax.models.cost import count_parameters
from cem_jax.runs.config import RunConfig
from cem_jax.runs.described import describe
from cem_jax.runs.environment import environment
from cem_jax.runs.estimate import expected_seconds
from cem_jax.runs.figures import eigenvalues, speed, split_figures
from cem_jax.runs.fit import Trained, fit
from cem_jax.runs.folder import CONFIG, SUMMARY, RunFolder, require_free
from cem_jax.runs.picture import Course, draw
from cem_jax.runs.references import references
from cem_jax.runs.report import plan, table
from cem_jax.runs.resume import require_same, warn_of_another_machine
from cem_jax.runs.text import Text
from cem_jax.runs.trainable import require_trainable


def run(config: RunConfig, out: Path, console: Console, *, resume: bool = False) -> dict[str, Any]:
    """Train, evaluate, and write the folder ``out``.

    Args:
        config: all that repeats the run.
        out: a new folder; with ``resume``, also that of this very run.
        console: what is said on the way goes there.
        resume: whether to go on from the newest state in ``out``, or begin where there is none.

    Returns:
        The content of ``summary.json``.

    Raises:
        ValueError: something cannot work, before any work; or ``out`` holds another run.
        NonFiniteError: the training came to no finite end.
        StoppedError: a signal stopped it; its state is saved.
    """
    start, folder = time.perf_counter(), RunFolder(out)
    require_free(folder, resume=resume)
    with console.status(f"reading {config.data.source} and its tokenizer"):
        text = Text.prepare(config.data, config.training.length)
    with console.status("trying the model"):
        require_trainable(config.model, config.training)
    folder.create()
    described = {"config": describe(config), "hashes": text.hashes(), **environment()}
    if folder.holds_a_run():
        stored = folder.read(CONFIG)
        require_same(stored, described)
        warn_of_another_machine(stored, described, console)
        if (summary := folder.summary()) is not None:
            _show(summary, folder, console)
            return summary
    else:
        folder.write(CONFIG, described)
    text.tokenizer.save(folder.tokenizer)
    _announce(config, text, folder, console)
    trained = fit(config, text, folder, described, console)
    with console.status("evaluating on the whole validation and test text"):
        summary = _finish(config, text, folder, trained)
    summary["seconds"] = trained.seconds_before + time.perf_counter() - start
    folder.write(SUMMARY, summary)
    _show(summary, folder, console)
    return summary


def _announce(config: RunConfig, text: Text, folder: RunFolder, console: Console) -> None:
    held_out = text.rows["valid"].predicted + text.rows["test"].predicted
    with console.status("measuring this machine"):
        seconds = expected_seconds(config.model, config.training, held_out)
    ahead = plan(config, count_parameters(config.model), text, seconds, folder.path)
    console.print(ahead, markup=False, highlight=False, soft_wrap=True)


def _finish(config: RunConfig, text: Text, folder: RunFolder, trained: Trained) -> dict[str, Any]:
    """All but the time, under the names of ``summary.json``; and the last sample and picture."""
    params = trained.params
    count, metrics = count_parameters(config.model), folder.metrics()
    summary: dict[str, Any] = {
        "name": config.name,
        "parameters": count.total,
        "parameters_without_embeddings": count.without_embedding,
        **speed(metrics),
        **split_figures(trained.row_nats, params, text),
        **eigenvalues(trained.graph, params),
        "references": references(text),
    }
    bits = summary["valid_bits_per_byte"] / summary["valid_loss"]
    own: dict[str, float] = next(iter(summary["references"].values()), {})
    draw(folder.picture, {config.name: Course(metrics, bits)}, own)
    return {**summary, "sample": trained.sampler(params)}


def _show(summary: dict[str, Any], folder: RunFolder, console: Console) -> None:
    title = "Test: bits per byte is the figure that tokenizers do not change"
    console.print(table([summary], title))
    console.print(
        f"\nA sample:\n{summary['sample']}\n\nThe run is in {folder.path}: loss.png is its course.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
