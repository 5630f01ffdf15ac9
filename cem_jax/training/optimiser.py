"""The optimiser of a training config, from Optax."""

from __future__ import annotations

from typing import Any

import optax

from cem_jax.training.config import AdamWConfig, MuonConfig, OptimiserConfig
from cem_jax.training.decay import decayed
from cem_jax.training.muon import muon_dimensions
from cem_jax.training.schedule import make_schedule


def make_optimiser(
    config: OptimiserConfig, steps: int, axes: dict[str, Any] | None = None
) -> optax.GradientTransformation:
    """Clip by the global norm, then AdamW or Muon under the config's schedule.

    Args:
        config: which, and how fast.
        steps: how many there will be.
        axes: the names of the parameters' axes, by which Muon knows a matrix; see
            `models.axes.parameter_axes`.
    """
    rule = _adamw(config, steps) if isinstance(config, AdamWConfig) else _muon(config, steps, axes)
    return optax.chain(optax.clip_by_global_norm(config.clip), rule)


def _adamw(config: AdamWConfig, steps: int) -> optax.GradientTransformation:
    return optax.adamw(
        make_schedule(config.schedule, config.learning_rate, steps),
        b1=config.b1,
        b2=config.b2,
        weight_decay=config.weight_decay,
        mask=decayed,
    )


def _muon(
    config: MuonConfig, steps: int, axes: dict[str, Any] | None
) -> optax.GradientTransformation:
    return optax.contrib.muon(
        make_schedule(config.schedule, config.learning_rate, steps),
        beta=config.momentum,
        weight_decay=config.weight_decay,
        adam_b1=config.b1,
        adam_b2=config.b2,
        adam_learning_rate=make_schedule(config.schedule, config.adam_learning_rate, steps),
        muon_weight_dimension_numbers=lambda params: muon_dimensions(params, axes or {}),
    )
