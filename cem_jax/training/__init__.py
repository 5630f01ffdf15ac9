"""The main loop: a plain state, one jitted step, and what keeps them on disk."""

from cem_jax.training.checkpoint import Checkpoints
from cem_jax.training.config import OptimiserConfig, TrainingConfig
from cem_jax.training.loop import Hooks, NonFiniteError, train
from cem_jax.training.optimiser import decayed, make_optimiser, make_schedule
from cem_jax.training.state import State, initial_state
from cem_jax.training.step import make_step

__all__ = [
    "Checkpoints",
    "Hooks",
    "NonFiniteError",
    "OptimiserConfig",
    "State",
    "TrainingConfig",
    "decayed",
    "initial_state",
    "make_optimiser",
    "make_schedule",
    "make_step",
    "train",
]
