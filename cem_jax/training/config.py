"""How a model is trained, as frozen descriptions."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, get_args

from cem_jax.ops.checks import (
    require_count,
    require_kind,
    require_length,
    require_one_of,
    require_tokens,
    require_within,
)

ScheduleKind = Literal["cosine", "wsd"]
NonFinite = Literal["stop", "skip"]


@dataclasses.dataclass(frozen=True)
class ScheduleConfig:
    """How the learning rate rises to its peak and falls; see `schedule.make_schedule`.

    Attributes:
        kind: ``"cosine"``, half a cosine after the warm-up; or ``"wsd"``, warm-up, stable, decay:
            the peak is held and then falls in a line.
        warmup: the part of the steps in which the rate rises, in [0, 1).
        decay: the part of the steps in which ``"wsd"`` falls, in [0, 1].
        final: the rate after the last step as a part of the peak, in [0, 1].
    """

    kind: ScheduleKind = "wsd"
    warmup: float = 0.05
    decay: float = 0.4
    final: float = 0.05

    def __post_init__(self) -> None:
        require_one_of("kind", self.kind, get_args(ScheduleKind))
        require_within("warmup", self.warmup, 0, 1, open_above=True)
        require_within("decay", self.decay, 0, 1)
        require_within("final", self.final, 0, 1)
        if self.kind == "wsd" and self.warmup + self.decay > 1:
            raise ValueError(
                f"warmup, decay: got {self.warmup} and {self.decay}, expected at most 1 together; "
                f"shorten one."
            )


@dataclasses.dataclass(frozen=True)
class AdamWConfig:
    """AdamW; Loshchilov and Hutter, arXiv 1711.05101.

    Attributes:
        learning_rate: the peak, positive.
        weight_decay: of matrices of weights, at least 0; see `optimiser.decayed`.
        b1: decay of the first moment, in [0, 1).
        b2: decay of the second moment, in [0, 1).
        clip: the largest global norm of the gradient, positive; infinity never clips.
        schedule: of the learning rate.
    """

    learning_rate: float = 8e-3
    weight_decay: float = 0.1
    b1: float = 0.9
    b2: float = 0.98
    clip: float = 1.0
    schedule: ScheduleConfig = ScheduleConfig()

    def __post_init__(self) -> None:
        _require_rates(self, "learning_rate")
        for name in ("b1", "b2"):
            require_within(name, getattr(self, name), 0, 1, open_above=True)
        _require_common(self)


@dataclasses.dataclass(frozen=True)
class MuonConfig:
    """Muon for the matrices of the blocks, Adam for the rest; Jordan et al. (2024).

    Attributes:
        learning_rate: Muon's peak, positive. An update of a matrix with m rows of input and n of
            output has singular values of about this, times sqrt(n / m) where n > m.
        adam_learning_rate: the peak for embeddings, gains, step sizes, diagonals, relative biases,
            preconditioners.
        weight_decay: of Muon's matrices, at least 0.
        momentum: Muon's, in [0, 1); Nesterov's, as is that of its Adam.
        b1: Adam's decay of the first moment, in [0, 1).
        b2: Adam's decay of the second moment, in [0, 1).
        clip: the largest global norm of the gradient, positive; infinity never clips.
        schedule: of both learning rates.
    """

    learning_rate: float = 0.01
    adam_learning_rate: float = 8e-3
    weight_decay: float = 0.1
    momentum: float = 0.95
    b1: float = 0.9
    b2: float = 0.98
    clip: float = 1.0
    schedule: ScheduleConfig = ScheduleConfig()

    def __post_init__(self) -> None:
        _require_rates(self, "learning_rate", "adam_learning_rate")
        for name in ("momentum", "b1", "b2"):
            require_within(name, getattr(self, name), 0, 1, open_above=True)
        _require_common(self)


OptimiserConfig = AdamWConfig | MuonConfig


def _require_rates(config: OptimiserConfig, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if not 0 < value < math.inf:
            raise ValueError(f"{name}: got {value}, expected a finite positive number.")


def _require_common(config: OptimiserConfig) -> None:
    if not config.clip > 0:
        raise ValueError(f"clip: got {config.clip}, expected a positive number, or inf for none.")
    if not 0 <= config.weight_decay < math.inf:
        raise ValueError(f"weight_decay: got {config.weight_decay}, expected a number >= 0.")
    require_kind("schedule", config.schedule, ScheduleConfig)


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """A run of a fixed number of steps.

    Attributes:
        steps: how many, at least 1; never a clock, so that runs can be compared and repeated.
        batch: B, rows of a step, which may be more than the text has; at most 2^30 tokens in all.
        length: L, the tokens that a row predicts; the model sees no further back. At most 2^24.
        accumulate: into how many micro-batches the rows of a step are cut, a divisor of batch:
            their gradients are added up one after another, which takes less memory. It decides
            nothing else but the order of sums.
        seed: of the parameters, the shuffle and the samples.
        record_every: after how many steps the metrics are fetched from the device.
        evaluate_every: after how many steps part of the validation text is evaluated and a sample
            is drawn; the end is always.
        save_every: after how many steps the state is saved; the end, and what is evaluated, always.
        keep: how many of the newest states are kept; the best on validation is kept beside them.
        non_finite: what a loss or a gradient that is no finite number does: ``"stop"`` ends the
            run; ``"skip"`` leaves parameters and optimiser as they were and goes on with the next
            batch, and ends the run after more than 10 in a row. Either way the rows are written
            to the run's folder.
        optimiser: how the parameters move.
    """

    steps: int = 800
    batch: int = 8
    length: int = 128
    accumulate: int = 1
    seed: int = 0
    record_every: int = 10
    evaluate_every: int = 200
    save_every: int = 200
    keep: int = 2
    non_finite: NonFinite = "stop"
    optimiser: OptimiserConfig = MuonConfig()

    def __post_init__(self) -> None:
        for name in COUNTS:
            require_count(name, getattr(self, name))
        require_length(self.length)
        require_tokens(self.batch, self.length)
        if self.batch % self.accumulate:
            raise ValueError(
                f"accumulate: got {self.accumulate} micro-batches of a batch of {self.batch} rows, "
                f"expected a divisor of it: {', '.join(map(str, _divisors(self.batch)))}; choose "
                f"one, or another batch."
            )
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed: got {self.seed}, expected a number in [0, 2^32).")
        require_one_of("non_finite", self.non_finite, get_args(NonFinite))
        require_kind("optimiser", self.optimiser, (AdamWConfig, MuonConfig))


COUNTS = (
    "steps",
    "batch",
    "length",
    "accumulate",
    "record_every",
    "evaluate_every",
    "save_every",
    "keep",
)
"""The fields of `TrainingConfig` that count something."""


def _divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]
