"""The loop: steps, and what happens between them."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from cem_jax.data.packing import Batch
from cem_jax.training.config import TrainingConfig
from cem_jax.training.state import State
from cem_jax.training.step import Metrics, Step

Record = dict[str, Any]
"""What is known of a step, by name; a line of ``metrics.jsonl``."""


class NonFiniteError(ArithmeticError):
    """Losses, gradients or parameters that are no finite numbers; the run cannot go on from them.

    Attributes:
        step: the step it was seen at, from 1; its batch is that of ``step - 1``.
        suspect: the state that a loss which is not finite was of, which may have been saved. All
            before it are known to be good: the loss that follows each was finite.
    """

    def __init__(self, message: str, step: int, *, suspect: int | None = None) -> None:
        super().__init__(message)
        self.step = step
        self.suspect = suspect


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
        evaluate: figures of the parameters, by name; called with `TrainingConfig.evaluate_every`.
        evaluated: takes the step and what ``evaluate`` returned.
        sample: takes the step and the parameters, after each evaluation.
        save: keeps a state, all of whose metrics are finite, and its figures, if it has any.
        stop: whether to stop after this step; asked after each.
    """

    record: Callable[[list[Record]], None] | None = None
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
) -> State:
    """Run the steps that are left, from ``state["step"]`` to ``config.steps``.

    Args:
        state: where to start; it is consumed.
        step: see `make_step`.
        batches: the batch of a step, a pure function.
        config: how many steps, and how often to look.
        hooks: what to do along the way.
        seconds: of training before this start.

    Returns:
        The state after the last step.

    Raises:
        NonFiniteError: a loss, a gradient, a figure of an evaluation, or the parameters to save
            are not finite. No state from there on is saved.
        StoppedError: the hook ``stop`` said so; the state was handed to ``save``.
    """
    hooks = Hooks() if hooks is None else hooks
    pending = _Pending(seconds)
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
            _record(pending.fetch(), hooks)
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
        _require_finite(done, figures, tuple(figures))
        if hooks.evaluated is not None:
            hooks.evaluated(done, figures)
    if evaluate and hooks.sample is not None:
        hooks.sample(done, state["params"])
    if hooks.save is not None:
        _require_finite_params(done, state["params"])
        hooks.save(state, figures)


def _require_finite_params(done: int, params: dict[str, Any]) -> None:
    """A finite gradient can still be too large a step."""
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(params)):
        raise NonFiniteError(
            f"parameters: got some that are not finite after step {done}, expected finite numbers; "
            f"they are not saved. Lower the learning rate, warm up longer, or clip harder.",
            done,
        )


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


def _record(records: list[Record], hooks: Hooks) -> None:
    """Hand on the records up to the first that is not finite, which ends the run."""
    names = ("loss", "gradient_norm")
    good = [all(math.isfinite(record[name]) for name in names) for record in records]
    whole = good.index(False) if False in good else len(records)
    if hooks.record is not None and whole:
        hooks.record(records[:whole])
    for record in records[whole:]:
        _require_finite(record["step"], record, names, suspect=record["step"] - 1)


def _require_finite(
    step: int, record: Record, names: tuple[str, ...], *, suspect: int | None = None
) -> None:
    for name in names:
        if not math.isfinite(record[name]):
            raise NonFiniteError(
                f"{name}: got {record[name]} at step {step}, expected a finite number; "
                f"training stops here, and checkpoints from before it are kept. Lower the learning "
                f"rate, warm up longer, or clip harder.",
                step,
                suspect=suspect,
            )
