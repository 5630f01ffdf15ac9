"""How an energy is lowered: `jax.grad` inside `jax.lax.scan`, with what shapes the step."""

from cem_jax.descent.config import DescentConfig, NormMode
from cem_jax.descent.descend import Descent, descend, identity
from cem_jax.descent.per_position import require_rule
from cem_jax.descent.preconditioner import Preconditioner, PreconditionerConfig
from cem_jax.descent.step_size import StepSize, StepSizeConfig

__all__ = [
    "Descent",
    "DescentConfig",
    "NormMode",
    "Preconditioner",
    "PreconditionerConfig",
    "StepSize",
    "StepSizeConfig",
    "descend",
    "identity",
    "require_rule",
]
