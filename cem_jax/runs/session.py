"""A run from its config to its folder: text in, a trained model and its figures out."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from cem_jax.data import load_tokenizer
from cem_jax.models.cost import count_forward_flops, count_parameters
from cem_jax.runs.config import RunConfig
from cem_jax.runs.described import describe
from cem_jax.runs.environment import environment
from cem_jax.runs.estimate import expected_seconds
from cem_jax.runs.figures import eigenvalues, skips, speed, split_figures
from cem_jax.runs.fit import Trained, fit
from cem_jax.runs.folder import CONFIG, SUMMARY, RunFolder, require_free, run_folder
from cem_jax.runs.lock import locked
from cem_jax.runs.picture import Course, draw
from cem_jax.runs.references import references
from cem_jax.runs.report import plan, table
from cem_jax.runs.reporting import Report, Reported
from cem_jax.runs.resume import require_same, require_same_text, warn_of_other_bits
from cem_jax.runs.starting import require_start
from cem_jax.runs.text import Text
from cem_jax.runs.trainable import require_placeable, require_trainable
from cem_jax.runs.utilisation import median_utilisation
from cem_jax.runs.watch import Watch
from cem_jax.sharding import Layout, MeshShape
from cem_jax.sharding.processes import by_first, is_first, require_agreed


def run(
    config: RunConfig,
    out: Path,
    console: Console,
    *,
    resume: bool = False,
    report: Report = "full",
    mesh: MeshShape | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Train, evaluate, and write the folder ``out``.

    Args:
        config: all that repeats the run.
        out: a new folder; with ``resume``, also that of this very run.
        console: what is said on the way goes there.
        resume: whether to go on from the newest state in ``out``, or begin where there is none.
        report: what is evaluated at the end; a run that has ended is evaluated again where its
            summary lacks some of it.
        mesh: over which devices it is spread; by default one. What is trained does not depend on
            it but for the order of sums: a run may go on with another.
        watch: what is looked at while it trains.

    Returns:
        The content of ``summary.json``.

    Raises:
        ValueError: something cannot work, before any work; or ``out`` holds another run.
        NonFiniteError: the training came to no finite end.
        StoppedError: a signal stopped it; its state is saved.
        OSError: something could not be written; what was saved before is whole.
    """
    start, folder, wanted = time.perf_counter(), run_folder(out), Reported.of(report)
    layout = Layout.of(mesh)
    require_placeable(config, layout)
    require_free(folder, resume=resume)
    described = {"config": describe(config), **environment()}
    stored = folder.config() if folder.holds_a_run() else None
    if stored is not None:
        require_same(stored, described)
        summary = folder.summary()
        same = described["config"]["data"] == stored["config"]["data"]
        if summary is not None and same and wanted.satisfied_by(summary):
            console.print(f"{out} has ended; its figures:", markup=False, highlight=False)
            show(summary, folder, console)
            return summary
    with console.status(f"reading {config.data.source} and its tokenizer"):
        text = _text(config, folder, stored)
    described["hashes"] = text.hashes()
    require_agreed([described["config"], described["hashes"], report, str(mesh), stored is None])
    if resume and stored is None:
        console.print(f"no run in {out} yet: it begins", markup=False, highlight=False)
    if stored is not None:
        require_same_text(stored, described)
        warn_of_other_bits(stored, described, console)
        # As it was begun: its states say so, even in words of an older version.
        described = stored
    else:
        with console.status("trying the model"):
            require_trainable(config.model, config.training)
            require_start(config, text, layout)
    with contextlib.ExitStack() as held:
        by_first(lambda: _begin(folder, described, text, held, new=stored is None))
        _announce(config, text, folder, wanted, console)
        # What others watch is told once.
        watched = watch if watch is not None and is_first() else Watch()
        trained = fit(config, text, folder, described, console, layout, watched)
        summary = _finish(config, text, folder, trained, wanted, console, start)
    show(summary, folder, console)
    return summary


def _begin(
    folder: RunFolder,
    described: dict[str, Any],
    text: Text,
    held: contextlib.ExitStack,
    *,
    new: bool,
) -> None:
    """Make the folder, hold it, and write down what the run is."""
    if new:
        folder.create()
    held.enter_context(locked(folder.path))
    if new:
        folder.write(CONFIG, described)
    text.tokenizer.save(folder.tokenizer)


def _text(config: RunConfig, folder: RunFolder, stored: dict[str, Any] | None) -> Text:
    """The text, with the very tokenizer of a run that was begun, unless another is asked for."""
    same = stored is not None and stored["config"]["data"]["tokenizer"] == config.data.tokenizer
    own = load_tokenizer(folder.tokenizer) if same and folder.tokenizer.is_dir() else None
    return Text.prepare(config.data, config.training.length, own)


def _announce(
    config: RunConfig, text: Text, folder: RunFolder, wanted: Reported, console: Console
) -> None:
    held_out = sum(text.rows[split].predicted for split in wanted.splits)
    done = max((record["step"] for record in folder.metrics()), default=0)
    with console.status("measuring this machine"):
        seconds = expected_seconds(config.model, config.training, held_out, done=done)
    count = count_parameters(config.model)
    ahead = plan(config, count, text, seconds, folder.path, wanted.splits)
    console.print(ahead, markup=False, highlight=False, soft_wrap=True)


def _finish(
    config: RunConfig,
    text: Text,
    folder: RunFolder,
    trained: Trained,
    wanted: Reported,
    console: Console,
    start: float,
) -> dict[str, Any]:
    """The summary, written before what only stands beside it, and again with it."""
    count, metrics = count_parameters(config.model), folder.metrics()
    length = config.training.length
    flops = count_forward_flops(config.model, batch=1, length=length)
    with console.status(f"evaluating on the whole text for {' and '.join(wanted.splits)}"):
        summary: dict[str, Any] = {
            "name": config.name,
            "parameters": count.total,
            "parameters_without_embeddings": count.without_embedding,
            "forward_flops_per_token": flops / length,
            **speed(metrics),
            **skips(metrics),
            **median_utilisation(metrics),
            **split_figures(
                trained.row_nats, trained.params, text, wanted.splits, trained.devices_of_rows
            ),
            **eigenvalues(trained.graph, trained.params),
            "sample": trained.sampler(trained.params),
        }

    def write() -> None:
        summary["seconds"] = trained.seconds_before + time.perf_counter() - start
        folder.write(SUMMARY, summary)

    def complete() -> None:
        write()
        if wanted.references:
            with console.status("counting n-grams for comparison"):
                summary["references"] = references(text)
        own: dict[str, float] = next(iter(summary.get("references", {}).values()), {})
        bits = summary["valid_bits_per_byte"] / summary["valid_loss"]
        draw(folder.picture, {config.name: Course(metrics, bits)}, own)
        write()

    by_first(complete)
    return summary


def show(summary: dict[str, Any], folder: RunFolder, console: Console) -> None:
    """The table of an ended run, its sample, and where it lies."""
    console.print(table([summary], "what the run reached"))
    console.print(
        f"\nA sample:\n{summary['sample']}\n\nThe run is in {folder.path}: loss.png is its course.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
