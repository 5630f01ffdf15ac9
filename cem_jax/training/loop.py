"""The loop: steps, and what happens between them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax

from cem_jax.data.packing import Batch
from cem_jax.training.config import TrainingConfig
from cem_jax.training.finite import Guard, Record, require_finite, require_finite_params
from cem_jax.training.state import State
from cem_jax.training.step import Metrics, Step


class StoppedError(Exception):
    """Somebody asked the run to stop; its state is saved.

    Attributes:
        step: how many steps are done.
        signal: by which the process was asked; None where it was another way.
    """

    def __init__(self, step: int, signal: int | None = None) -> None:
        super().__init__(f"stopped after step {step}")
        self.step = step
        self.signal = signal


@dataclasses.dataclass(frozen=True)
class Hooks:
    """What the caller does along the way; each is optional.

    Attributes:
        record: takes the metrics of the steps since the last call, one record per step.
        skipped: takes the record of each step that was skipped, after ``record`` took it.
        evaluate: figures of the parameters, by name; called with `TrainingConfig.evaluate_every`.
        evaluated: takes the step and what ``evaluate`` returned.
        sample: takes the step and the parameters, after each evaluation.
        save: keeps a state, all of whose metrics are finite, and its figures, if it has any.
        stop: whether to stop after this step; asked after each.
    """

    record: Callable[[list[Record]], None] | None = None
    skipped: Callable[[Record], None] | None = None
    evaluate: Callable[[dict[str, Any]], Record] | None = None
    evaluated: Callable[[int, Record], None] | None = None
    sample: Callable[[int, dict[str, Any]], None] | None = None
    save: Callable[[State, Record], None] | None = None
    stop: Callable[[], bool] | None = None


def train(
    state: State,
    step: Step,
    batches: Callable[[int], Batch],
    config: TrainingConfig,
    hooks: Hooks | None = None,
    *,
    seconds: float = 0.0,
    skipped: int = 0,
) -> State:
    """Run the steps that are left, from ``state["step"]`` to ``config.steps``.

    Args:
        state: where to start; it is consumed.
        step: see `make_step`.
        batches: the batch of a step, a pure function.
        config: how many steps, and how often to look.
        hooks: what to do along the way.
        seconds: of training before this start.
        skipped: how many of the last steps before it were skipped; see `skipped_in_a_row`.

    Returns:
        The state after the last step.

    Raises:
        NonFiniteError: a loss, a gradient, a figure of an evaluation, or the parameters to save
            are not finite. No state from there on is saved. Where ``step`` skips what is not
            finite: more than `finite.SKIPS` steps in a row were.
        StoppedError: the hook ``stop`` said so; the state was handed to ``save``.
    """
    hooks = Hooks() if hooks is None else hooks
    pending, guard = _Pending(seconds), Guard(skipped)
    for index in range(int(state["step"]), config.steps):
        state, metrics = step(state, batches(index))
        pending.add(index, metrics)
        done = index + 1
        last = done == config.steps
        stop = hooks.stop is not None and hooks.stop()
        # Also where it stops: a run that goes on from here would never come back to it.
        evaluate = last or done % config.evaluate_every == 0
        save = stop or evaluate or done % config.save_every == 0
        if save or done % config.record_every == 0:
            _record(pending.fetch(), guard, hooks)
        if save:
            _pause(done, state, hooks, evaluate=evaluate)
            pending.resume()
        if stop:
            raise StoppedError(done)
    return state


def _pause(done: int, state: State, hooks: Hooks, *, evaluate: bool) -> None:
    """Evaluate, sample and save, in this order: what a saved state has behind it is written."""
    figures: Record = {}
    if evaluate and hooks.evaluate is not None:
        figures = hooks.evaluate(state["params"])
        require_finite(done, figures, figures)
        if hooks.evaluated is not None:
            hooks.evaluated(done, figures)
    if evaluate and hooks.sample is not None:
        hooks.sample(done, state["params"])
    if hooks.save is not None:
        require_finite_params(done, state["params"])
        hooks.save(state, figures)


class _Pending:
    """Metrics that are still on the device: they are fetched together, so that steps overlap."""

    def __init__(self, seconds: float) -> None:
        self.metrics: dict[int, Metrics] = {}
        self.seconds = seconds
        self.since = time.perf_counter()

    def add(self, index: int, metrics: Metrics) -> None:
        self.metrics[index] = metrics

    def resume(self) -> None:
        """Restart the clock: evaluation is not training."""
        self.since = time.perf_counter()

    def fetch(self) -> list[Record]:
        """One record per step; ``seconds`` are those of training, up to the last."""
        values = jax.device_get(self.metrics)
        now = time.perf_counter()
        self.seconds, self.since, self.metrics = self.seconds + now - self.since, now, {}
        records = []
        for index, metrics in values.items():
            record = {name: float(value) for name, value in metrics.items()}
            records.append({"step": index + 1, **record, "seconds": self.seconds})
        return records


def _record(records: list[Record], guard: Guard, hooks: Hooks) -> None:
    """Hand on the records up to the one, if any, that ends the run."""
    passed: list[Record] = []
    try:
        for record in records:
            passed.append(guard(record))
    finally:
        if hooks.record is not None and passed:
            hooks.record(passed)
        if hooks.skipped is not None:
            for record in passed:
                if "skipped" in record:
                    hooks.skipped(record)
