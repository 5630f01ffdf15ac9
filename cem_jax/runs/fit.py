"""The training of a run, from the newest state in its folder to the last step."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from flax import nnx
from jax.sharding import Mesh
from rich.console import Console

from cem_jax.data import Batch, Pipeline, ReadAhead
from cem_jax.evaluation.perplexity import RowNats, make_row_nats
from cem_jax.inference import Sampling
from cem_jax.models import Transformer, parameter_axes
from cem_jax.runs.config import RunConfig
from cem_jax.runs.figures import make_glance
from cem_jax.runs.folder import RunFolder
from cem_jax.runs.offending import write_offending
from cem_jax.runs.profiling import Profiler
from cem_jax.runs.progress import LiveLine
from cem_jax.runs.resume import identity
from cem_jax.runs.sampling import Sampler
from cem_jax.runs.starting import require_start, started
from cem_jax.runs.stopping import stop_signals
from cem_jax.runs.text import Text
from cem_jax.runs.tracking import Trackers
from cem_jax.runs.utilisation import Utilisation
from cem_jax.runs.watch import Watch
from cem_jax.sharding import Layout
from cem_jax.sharding.processes import by_first
from cem_jax.sharding.spread import Spread
from cem_jax.training import (
    Checkpoints,
    Fresh,
    Hooks,
    NonFiniteError,
    State,
    StoppedError,
    fresh_state,
    make_optimiser,
    make_step,
    skipped_in_a_row,
    train,
)
from cem_jax.training.finite import Record
from cem_jax.training.recompiling import told_of_recompiling


class Trained(NamedTuple):
    """A model after its last step.

    Attributes:
        graph: with the parameters it merges to the model.
        params: a nested dict of arrays.
        row_nats: evaluates it, compiled.
        sampler: draws text from it, compiled.
        seconds_before: of training before this start.
        devices_of_rows: see `Layout.devices_of_rows`.
    """

    graph: nnx.GraphDef[Any]
    params: dict[str, Any]
    row_nats: RowNats
    sampler: Sampler
    seconds_before: float
    devices_of_rows: int


def fit(
    config: RunConfig,
    text: Text,
    folder: RunFolder,
    described: dict[str, Any],
    console: Console,
    layout: Layout,
    watch: Watch,
) -> Trained:
    """Train until the end, from the newest state that there is.

    Args:
        config: of the run.
        text: its text.
        folder: where states, metrics and samples go.
        described: the content of ``config.json``.
        console: where the live line is drawn.
        layout: where state and batches live.
        watch: what is looked at on the way.

    Raises:
        NonFiniteError: no finite end.
        StoppedError: a signal; the state is saved.
    """
    training, axes = config.training, parameter_axes(config.model)
    optimiser = make_optimiser(training.optimiser, training.steps, axes)
    fresh = fresh_state(
        lambda rngs: Transformer(config.model, rngs=rngs),
        optimiser,
        seed=training.seed,
        sharding=functools.partial(layout.state, axes=axes),
    )
    pipeline = Pipeline(text.rows["train"], batch=training.batch, seed=training.seed)
    row_nats, graph = make_row_nats(fresh.graph, layout.scope), fresh.graph
    sampler = Sampler(graph, text.tokenizer, training.length, Sampling(seed=training.seed))
    line = LiveLine(console, training.steps)
    checkpoints = Checkpoints(folder.checkpoints, identity(described), keep=training.keep)
    shape = (training.batch, training.length)
    batches = ReadAhead(_placed(pipeline, layout.batch, shape), end=training.steps)
    profiler = Profiler(folder.profile, watch.profile, line.say)
    trackers = Trackers(watch.track, folder, described)
    stop = stop_signals(line.say)
    # Left from right to left: the state is on disk before anything else ends, or is killed.
    with stop, trackers, line, profiler, batches, checkpoints:
        state = _newest(checkpoints, fresh, config, text, layout, line)
        begin = int(state["step"])
        stop.begin(begin)
        seconds, skipped = _begin(folder, begin, line)
        trackers.begin()
        hooks = dataclasses.replace(
            _hooks(
                make_glance(row_nats, text, layout.devices_of_rows),
                folder,
                sampler,
                line,
                _utilisation(config, layout),
                trackers,
            ),
            skipped=_skipped(text, folder, pipeline, line),
            save=checkpoints.save,
            stop=stop,
        )
        step = make_step(
            graph,
            optimiser,
            layout.scope,
            accumulate=training.accumulate,
            non_finite=training.non_finite,
        )
        step = profiler.of(told_of_recompiling(step, begin, line.say), begin)
        try:
            state = train(state, step, batches, training, hooks, seconds=seconds, skipped=skipped)
        except NonFiniteError as error:
            _set_suspects_aside(checkpoints, error.suspect, line)
            raise _with_rows(error, folder, pipeline, text) from error
        except StoppedError as error:
            raise StoppedError(error.step, stop.signal) from error
    return Trained(graph, state["params"], row_nats, sampler, seconds, layout.devices_of_rows)


def _newest(
    checkpoints: Checkpoints,
    fresh: Fresh,
    config: RunConfig,
    text: Text,
    layout: Layout,
    line: LiveLine,
) -> State:
    """The newest state in the folder, or that of a run that begins."""
    restored = checkpoints.restore_newest(fresh.abstract, line.say)
    if restored is None:
        return started(fresh.create(), require_start(config, text, layout))
    return restored[0]


def _with_rows(
    error: NonFiniteError, folder: RunFolder, pipeline: Pipeline, text: Text
) -> NonFiniteError:
    """The error with the rows of its step, which are written out."""
    where = pipeline.where(error.step - 1)
    file = write_offending(folder, pipeline, text.tokenizer, error.step)
    message = (
        f"{error} The batch of that step is the rows {where} of the training text, written to "
        f"{file}."
    )
    return NonFiniteError(message, error.step)


def _begin(folder: RunFolder, step: int, line: LiveLine) -> tuple[float, int]:
    """Cut the folder's files back to the step of the state.

    Returns:
        The seconds of training so far, and how many of the last steps were skipped.
    """
    # Before any process reads them: all must count the same steps that were skipped.
    by_first(lambda: folder.cut_back(step))
    steps = [record for record in folder.metrics() if "tokens" in record]
    seconds = float(steps[-1]["seconds"]) if steps else 0.0
    if step:
        line.say(f"going on from the state of step {step:,}")
        line.start_at(step, seconds)
    return seconds, skipped_in_a_row(steps)


def _set_suspects_aside(checkpoints: Checkpoints, step: int | None, line: LiveLine) -> None:
    """The state that a loss which is not finite was of, where it was saved and not evaluated.

    So are those after it, which skipped steps have left with its parameters.
    """
    checkpoints.wait()
    later = [] if step is None else [saved for saved in checkpoints.steps() if saved >= step]
    for suspect in later:
        if not checkpoints.evaluated(suspect):
            where = checkpoints.set_aside(suspect)
            line.say(f"the state of step {suspect} may be the cause: it was moved to {where}")


def _placed(pipeline: Pipeline, sharding: Any, shape: tuple[int, int]) -> Callable[[int], Batch]:
    """The batch of a step, each row read by the processes that hold it."""
    spread = Spread(sharding, shape)

    def batch(step: int) -> Batch:
        placed: Batch = spread(pipeline.batch(step, spread.rows))
        return placed

    return batch


def _skipped(
    text: Text, folder: RunFolder, pipeline: Pipeline, line: LiveLine
) -> Callable[[Record], None]:
    """Says which step was skipped, why, and where its rows are."""

    def skipped(record: Record) -> None:
        file = write_offending(folder, pipeline, text.tokenizer, record["step"])
        line.say(f"step {record['step']:,} was skipped: {record['why']}; its rows are in {file}")

    return skipped


def _utilisation(config: RunConfig, layout: Layout) -> Utilisation:
    assert isinstance(layout.mesh, Mesh)
    return Utilisation(config.model, config.training, layout.mesh.devices.flat[0], layout.mesh.size)


def _hooks(
    evaluate: Callable[[dict[str, Any]], Record],
    folder: RunFolder,
    sampler: Sampler,
    line: LiveLine,
    utilisation: Utilisation,
    trackers: Trackers,
) -> Hooks:
    """What is written down and said between the steps."""

    def record(records: list[Record]) -> None:
        records = utilisation.add(records)
        folder.append_metrics(records)
        trackers.record(records)
        line.record(records)

    def evaluated(step: int, figures: Record) -> None:
        folder.append_metrics([{"step": step, **figures}])
        trackers.record([{"step": step, **figures}])
        loss, tokens = figures["valid_loss"], figures["valid_tokens"]
        line.say(f"step {step:,}: validation loss {loss:.4f} on {tokens:,} tokens")

    def sample(step: int, params: dict[str, Any]) -> None:
        folder.append_sample(step, sampler(params))

    return Hooks(record=record, evaluate=evaluate, evaluated=evaluated, sample=sample)
