"""The runs, as data."""

from __future__ import annotations

import dataclasses
from typing import Literal

from cem_jax import (
    CEMConfig,
    DescentConfig,
    InteractionConfig,
    MHAConfig,
    PreconditionerConfig,
    Rotary,
    StepSizeConfig,
)
from cem_jax.descent.step_size import Learning
from cem_jax.models.config import SublayerConfig
from experiments.gaussian_process.model import ModelConfig
from experiments.gaussian_process.prior import FIVE, ONE, Prior

WIDTH, HEADS, RANK = 64, 4, 8
STEPS = (1, 2, 4, 8)
DEPTHS = (1, 2)
SEEDS = (0, 1, 2, 3, 4)

UNROTATED = Rotary(fraction=0.0)
"""The order of the pairs says nothing, so no model is told positions."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and its task; ``kind`` names the attention, as in ``"cem-t4"``."""

    prior: Prior
    layers: int
    kind: str
    attention: SublayerConfig

    @property
    def name(self) -> str:
        """As in ``"1d-1layer-cem-t4"``."""
        return name_of(self.prior, self.layers, self.kind)

    @property
    def model(self) -> ModelConfig:
        """The model's description."""
        return ModelConfig(self.prior.input_dim, WIDTH, self.layers, self.attention)


def name_of(prior: Prior, layers: int, kind: str) -> str:
    """The name of a case, with which its results begin."""
    return f"{prior.name}-{layers}layer-{kind}"


def cem(
    steps: int,
    *,
    diagonal: Literal["none", "shared"] = "none",
    rank: int | None = None,
    initial: float = 0.2,
    learn: Learning = "layer",
) -> CEMConfig:
    """CEM attention.

    Args:
        steps: T.
        diagonal: of A_h.
        rank: of the preconditioner; None has none.
        initial: step size at the start.
        learn: whether one for each layer is learned or one for each step.
    """
    descent = DescentConfig(
        steps=steps,
        step_size=StepSizeConfig(initial, learn),
        preconditioner=None if rank is None else PreconditionerConfig(rank),
        unroll=min(steps, 4),
    )
    return CEMConfig(InteractionConfig(HEADS, diagonal=diagonal, rotary=UNROTATED), descent)


def mha() -> MHAConfig:
    """Multi-head attention."""
    return MHAConfig(HEADS, rotary=UNROTATED)


def _cases() -> tuple[Case, ...]:
    plain = {f"cem-t{steps}": cem(steps) for steps in STEPS} | {"mha": mha()}
    richer = {
        "cem-t4-p": cem(4, rank=RANK),
        "cem-t4-d": cem(4, diagonal="shared"),
        "cem-t4-pd": cem(4, diagonal="shared", rank=RANK),
        **{f"cem-t{steps}-s": cem(steps, learn="step") for steps in STEPS[1:]},
    }
    by_depth = [(ONE, layers, kind) for layers in DEPTHS for kind in plain]
    by_part = [(ONE, 1, kind) for kind in richer]
    by_dimension = [(FIVE, 1, kind) for kind in ("cem-t1", "cem-t4", "mha")]
    attention = plain | richer
    return tuple(
        Case(prior, layers, kind, attention[kind])
        for prior, layers, kind in (*by_depth, *by_part, *by_dimension)
    )


CASES = {case.name: case for case in _cases()}
"""Nineteen, by name."""
