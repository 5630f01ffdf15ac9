"""How a layer descends, as one frozen description."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

from cem_jax.descent.preconditioner import PreconditionerConfig
from cem_jax.descent.step_size import StepSizeConfig
from cem_jax.ops.checks import (
    require_count,
    require_kind,
    require_kind_or_none,
    require_one_of,
    require_within,
)
from cem_jax.ops.remat import Remat, require_remat

NormMode = Literal["default", "exact", "once", "none"]


@dataclasses.dataclass(frozen=True)
class DescentConfig:
    """The options of equation (1).

    Attributes:
        steps: T, at least 1.
        norm_mode: ``"default"`` takes the gradient at u = norm(x) and moves x; ``"exact"`` takes
            that of eps(norm(x) | c) with respect to x; ``"once"`` lets u itself descend from c
            and returns h + u^(T) - u^(0); ``"none"`` has no norm at all.
        step_size: eta.
        preconditioner: P; None is the identity.
        momentum: beta of the heavy ball, 0 <= beta < 1: P is applied to
            m^(t+1) = g^(t) + beta m^(t), m^(0) = 0, instead of the gradient g^(t) (Polyak, 1964).
            At T = 1 it changes nothing.
        unroll: how many steps the scan unrolls.
        remat: what the training derivative keeps of each step; see `ops.remat`. With ``"full"``
            memory grows by the carried x alone for each further step. Anything but ``"none"`` not
            with ``unroll``: the compiler would merge the copies of straight code and save nothing.
    """

    steps: int = 1
    norm_mode: NormMode = "default"
    step_size: StepSizeConfig = StepSizeConfig()
    preconditioner: PreconditionerConfig | None = None
    momentum: float = 0.0
    unroll: int = 1
    remat: Remat = "none"

    def __post_init__(self) -> None:
        require_count("steps", self.steps)
        require_count("unroll", self.unroll)
        require_remat("remat", self.remat)
        require_kind("step_size", self.step_size, StepSizeConfig)
        require_kind_or_none("preconditioner", self.preconditioner, PreconditionerConfig)
        require_within("momentum", self.momentum, 0, 1, open_above=True)
        if self.remat != "none" and self.unroll > 1:
            raise ValueError(
                f"unroll: got {self.unroll} with remat={self.remat!r}, expected 1, since steps in "
                f"straight code are not recomputed; choose one of the two."
            )
        require_one_of("norm_mode", self.norm_mode, get_args(NormMode))
