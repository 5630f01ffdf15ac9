"""eta, the step size: positive, fixed or learned."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, get_args

import jax.numpy as jnp
import optax
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from cem_jax.ops.checks import require_count, require_one_of, require_positive
from cem_jax.ops.parameters import parameter

Learning = Literal["fixed", "layer", "step"]


@dataclasses.dataclass(frozen=True)
class StepSizeConfig:
    """The options of equation (9).

    Attributes:
        initial: eta at the start, positive. 0.15 is for an energy of which nothing is known, well
            below one, so that further steps refine the first; the presets start from step sizes
            that were tuned for theirs. Depth scaling belongs here, since W_O is tied.
        learn: ``"fixed"``, or learned ``"layer"`` by layer or ``"step"`` by step.
    """

    initial: float = 0.15
    learn: Learning = "layer"

    def __post_init__(self) -> None:
        require_positive("step size", self.initial)
        require_one_of("step size learning", self.learn, get_args(Learning))


class StepSize(nnx.Module):
    """eta_t = exp(raw_t) > 0; equation (9).

    Args:
        config: the options.
        steps: T, the number of step sizes where each step has its own.

    Parameters: ``raw []``, ``raw [T]``, or none when fixed.
    """

    def __init__(self, config: StepSizeConfig, steps: int) -> None:
        self.config = config
        self.steps = steps
        initial = jnp.float32(math.log(config.initial))
        axes = {"fixed": None, "layer": "", "step": "T"}[config.learn]
        value = jnp.full((steps,), initial) if axes == "T" else initial
        self.raw = None if axes is None else parameter(value, axes)

    def __call__(self, step: Array, dtype: DTypeLike = "float32") -> Float[Array, ""]:
        """eta of one step, in the dtype of what it will scale."""
        if self.raw is None:
            return jnp.asarray(self.config.initial, dtype)
        eta = jnp.exp(self.raw[...].astype(dtype))
        return eta[step] if eta.ndim else eta

    def require(self, steps: int) -> None:
        """Refuse more steps than there are learned step sizes: no rule says what they would be."""
        require_count("steps", steps)
        if self.config.learn == "step" and steps > self.steps:
            raise ValueError(
                f"steps: got {steps} with {self.steps} learned step sizes, expected at most "
                f"{self.steps}; learn one per layer (learn='layer') to run deeper."
            )

    def transformation(self) -> optax.GradientTransformationExtraArgs:
        """Multiplies by -eta_t, where `descend` says which step it is."""

        def update(
            updates: Any, state: Any, params: Any = None, *, step: Array, **extra: Any
        ) -> tuple[Any, Any]:
            return -self(step, updates.dtype) * updates, state

        return optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)
