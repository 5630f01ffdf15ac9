"""How a model is trained, as frozen descriptions."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from cem_jax.ops.checks import require_count


def _require(name: str, value: Any, holds: bool, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name}: got {value}, expected {expected}; choose one in that range.")


@dataclasses.dataclass(frozen=True)
class OptimiserConfig:
    """AdamW under a warm-up and a cosine.

    Attributes:
        learning_rate: the peak, positive.
        final_fraction: the rate after the last step as a part of the peak, in [0, 1].
        warmup: how many steps the rate rises; at step ``warmup`` it is the peak.
        weight_decay: of matrices of weights, at least 0; see `optimiser.decayed`.
        clip: the largest global norm of the gradient, positive; infinity never clips.
        b1: decay of the first moment, in [0, 1).
        b2: decay of the second moment, in [0, 1).
    """

    learning_rate: float = 8e-3
    final_fraction: float = 0.05
    warmup: int = 50
    weight_decay: float = 0.1
    clip: float = 1.0
    b1: float = 0.9
    b2: float = 0.98

    def __post_init__(self) -> None:
        for name in ("learning_rate", "clip"):
            _require(name, getattr(self, name), getattr(self, name) > 0, "a positive number")
        if math.isinf(self.learning_rate):
            raise ValueError("learning_rate: got inf, expected a finite positive number.")
        _require("weight_decay", self.weight_decay, self.weight_decay >= 0, "at least 0")
        _require("warmup", self.warmup, self.warmup >= 0, "at least 0")
        fraction = self.final_fraction
        _require("final_fraction", fraction, 0 <= fraction <= 1, "a number in [0, 1]")
        for name in ("b1", "b2"):
            _require(name, getattr(self, name), 0 <= getattr(self, name) < 1, "a number in [0, 1)")


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """A run of a fixed number of steps.

    Attributes:
        steps: how many, at least 1; never a clock, so that runs can be compared and repeated.
        batch: B, rows of a step.
        length: L, the pieces that a row predicts.
        seed: of the parameters, the shuffle and the samples.
        record_every: after how many steps the metrics are fetched from the device.
        evaluate_every: after how many steps the model is evaluated and saved; the end is always.
        optimiser: how the parameters move.
    """

    steps: int = 1000
    batch: int = 8
    length: int = 128
    seed: int = 0
    record_every: int = 10
    evaluate_every: int = 250
    optimiser: OptimiserConfig = OptimiserConfig()

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "length", "record_every", "evaluate_every"):
            require_count(name, getattr(self, name))
        _require("seed", self.seed, 0 <= self.seed < 2**32, "a number in [0, 2^32)")
        if self.optimiser.warmup >= self.steps:
            raise ValueError(
                f"warmup: got {self.optimiser.warmup} of {self.steps} steps, expected fewer than "
                f"there are; train longer or warm up shorter."
            )
