"""The learning rate of each step."""

from __future__ import annotations

import optax

from cem_jax.training.config import ScheduleConfig


def make_schedule(config: ScheduleConfig, peak: float, steps: int) -> optax.Schedule:
    """The learning rate of step s, from 0: a line to the peak, then the fall.

    rate(s) = peak (s + 1) / (W + 1) for s < W, so that the first step already learns, and
    rate(W) = peak, with W of `warmup_steps`. Then ``"cosine"``: half a cosine; ``"wsd"``: the peak
    until step ``steps - decay steps``, then a line. Both end in rate(steps) = final peak, just
    after the last step.

    Args:
        config: the shape.
        peak: the highest rate.
        steps: how many there are.
    """
    warmup = warmup_steps(config, steps)
    rise = optax.linear_schedule(peak / (warmup + 1), peak, max(warmup, 1))
    if config.kind == "cosine":
        fall = optax.cosine_decay_schedule(peak, steps - warmup, alpha=config.final)
        return optax.join_schedules([rise, fall], [warmup])
    start = decay_start(config, steps)
    stable = optax.constant_schedule(peak)
    fall = optax.linear_schedule(peak, config.final * peak, steps - start)
    return optax.join_schedules([rise, stable, fall], [warmup, start])


def told(config: ScheduleConfig, peak: float, steps: int) -> str:
    """The schedule in words, with its steps and rates."""
    warmup, final = warmup_steps(config, steps), config.final * peak
    if config.kind == "cosine":
        return (
            f"cosine over {steps:,} steps: up to {peak:g} at step {warmup:,}, half a cosine down "
            f"to {final:g}"
        )
    return (
        f"wsd over {steps:,} steps: up to {peak:g} at step {warmup:,}, from step "
        f"{decay_start(config, steps):,} in a line down to {final:g}"
    )


def decay_start(config: ScheduleConfig, steps: int) -> int:
    """The step at which ``"wsd"`` begins to fall."""
    warmup = warmup_steps(config, steps)
    return max(warmup, steps - max(1, round(config.decay * steps)))


def warmup_steps(config: ScheduleConfig, steps: int) -> int:
    """W, the steps before the peak: the part of all that the config says, rounded, never all."""
    return min(round(config.warmup * steps), steps - 1)
