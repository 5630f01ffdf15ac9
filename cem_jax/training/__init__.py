"""The main loop: a plain state, one jitted step, and what keeps them on disk."""

from cem_jax.training.checkpoint import Checkpoints
from cem_jax.training.config import AdamWConfig, MuonConfig, ScheduleConfig, TrainingConfig
from cem_jax.training.decay import decayed
from cem_jax.training.finite import NonFiniteError, skipped_in_a_row
from cem_jax.training.loop import Hooks, StoppedError, train
from cem_jax.training.optimiser import make_optimiser
from cem_jax.training.schedule import make_schedule
from cem_jax.training.state import Fresh, State, fresh_state, initial_state
from cem_jax.training.step import make_step

__all__ = [
    "AdamWConfig",
    "Checkpoints",
    "Fresh",
    "Hooks",
    "MuonConfig",
    "NonFiniteError",
    "ScheduleConfig",
    "State",
    "StoppedError",
    "TrainingConfig",
    "decayed",
    "fresh_state",
    "initial_state",
    "make_optimiser",
    "make_schedule",
    "make_step",
    "skipped_in_a_row",
    "train",
]
