"""AdamW under a warm-up and a cosine, with decay of matrices of weights only."""

from __future__ import annotations

from typing import Any

import jax
import optax

from cem_jax.training.config import OptimiserConfig

STACKED = "blocks"
"""Parameters under this name have the layer axis in front of their own."""

UNDECAYED = frozenset(
    {"gain", "step_size", "log_temperature", "d", "bias", "preconditioner"},
)
"""Names that exempt what stands under them: norm gains, eta, tau, the diagonal of an interaction
energy, the relative bias, and P. They scale or shape what the matrices do: decay would pull eta,
tau and P to values of no meaning, and keep d, the bias and V from leaving zero."""


def make_schedule(config: OptimiserConfig, steps: int) -> optax.Schedule:
    """The learning rate of step s, from 0: a line to the peak, then half a cosine.

    rate(s) = peak (s + 1) / (warmup + 1) for s < warmup, so that the first step already learns;
    rate(warmup) = peak; rate(steps) = final_fraction peak, just after the last step.

    Args:
        config: the peak, the warm-up and the end.
        steps: how many there are, more than the warm-up.
    """
    if not config.warmup < steps:
        raise ValueError(
            f"warmup: got {config.warmup} of {steps} steps, expected fewer than there are."
        )
    peak, warmup = config.learning_rate, config.warmup
    rise = optax.linear_schedule(peak / (warmup + 1), peak, max(warmup, 1))
    fall = optax.cosine_decay_schedule(peak, steps - warmup, alpha=config.final_fraction)
    return optax.join_schedules([rise, fall], [warmup])


def make_optimiser(config: OptimiserConfig, steps: int) -> optax.GradientTransformation:
    """Clip by the global norm, then AdamW with `make_schedule` and the mask of `decayed`."""
    adamw = optax.adamw(
        make_schedule(config, steps),
        b1=config.b1,
        b2=config.b2,
        weight_decay=config.weight_decay,
        mask=decayed,
    )
    return optax.chain(optax.clip_by_global_norm(config.clip), adamw)


def decayed(params: dict[str, Any]) -> dict[str, Any]:
    """Which leaves weight decay shrinks: a tree of booleans.

    Those of two axes or more, the layer axis not counted, under none of the names `UNDECAYED`.
    """
    return jax.tree_util.tree_map_with_path(_decays, params)


def _decays(path: tuple[Any, ...], leaf: Any) -> bool:
    names = [str(getattr(key, "key", key)) for key in path]
    axes = leaf.ndim - (names[0] == STACKED)
    return axes >= 2 and UNDECAYED.isdisjoint(names)
