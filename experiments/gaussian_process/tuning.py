"""What was tried before the runs: learning rates and first step sizes, on the validation draw."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

from experiments.gaussian_process.model import ModelConfig
from experiments.gaussian_process.plan import WIDTH, cem, mha
from experiments.gaussian_process.prior import ONE
from experiments.gaussian_process.results import FOLDER, write
from experiments.gaussian_process.train import Training, fit

SEED = 100
"""Not one of the seeds of the runs."""

RATES = (2.5e-3, 5e-3, 1e-2, 2e-2, 4e-2)
DEEP_RATES = (1e-2, 2e-2)
INITIAL = (0.05, 0.5)
LONGER = 6000
"""Steps of training, whether more of it would change the order."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """On the 1-D prior; ``steps`` is T and ``initial`` eta, both None for multi-head attention."""

    layers: int
    steps: int | None
    learning_rate: float
    initial: float | None
    optimiser_steps: int = Training.steps

    def model(self) -> ModelConfig:
        """The model's description."""
        if self.steps is None or self.initial is None:
            return ModelConfig(ONE.input_dim, WIDTH, self.layers, mha())
        return ModelConfig(ONE.input_dim, WIDTH, self.layers, cem(self.steps, initial=self.initial))


def trials() -> list[Trial]:
    """Learning rates, the best two also with two layers; first step sizes; longer training."""
    kinds = ((1, 0.2), (4, 0.2), (None, None))
    return [
        *(Trial(1, steps, rate, initial) for rate in RATES for steps, initial in kinds),
        *(Trial(1, steps, 1e-2, initial) for initial in INITIAL for steps in (1, 4)),
        *(Trial(2, steps, rate, initial) for rate in DEEP_RATES for steps, initial in kinds),
        *(Trial(2, 8, rate, 0.2) for rate in DEEP_RATES),
        *(Trial(1, steps, 1e-2, initial, LONGER) for steps, initial in kinds),
    ]


def tune(folder: Path = FOLDER) -> None:
    """Do the trials that ``tuning.json`` lacks; it is written after each."""
    path = folder / "tuning.json"
    done: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    for trial in trials():
        fields = dataclasses.asdict(trial)
        if any(fields.items() <= one.items() for one in done):
            continue
        start = time.process_time()
        training = Training(steps=trial.optimiser_steps, learning_rate=trial.learning_rate)
        error = fit(ONE, trial.model(), training, SEED).validation[-1]["mse"]
        seconds = round(time.process_time() - start, 1)
        done.append({**fields, "validation_mse": error, "processor_seconds": seconds})
        write(path, done)
        print(done[-1], flush=True)
