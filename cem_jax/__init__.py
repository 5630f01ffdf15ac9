"""Causal Energy Minimization in JAX: a layer's output is `jax.grad` of an energy, T times.

Xu, Couturier, Rühle, Rajmohan, Hensman, arXiv 2605.07588, 2026.
"""

from cem_jax.descent import (
    Descent,
    DescentConfig,
    PreconditionerConfig,
    StepSizeConfig,
    descend,
)
from cem_jax.energies import (
    ContextScoreConfig,
    ElementwiseConfig,
    ElementwiseEnergy,
    Energy,
    EnergyOf,
    InteractionConfig,
    InteractionEnergy,
    MemoryConfig,
    MemoryEnergy,
    SumConfig,
    SumEnergy,
)
from cem_jax.models import (
    CEMMLP,
    CEMAttention,
    CEMConfig,
    CEMLayer,
    MHAConfig,
    Recipe,
    SwiGLUConfig,
    Transformer,
    TransformerConfig,
)
from cem_jax.ops.dtypes import accumulation_dtype
from cem_jax.ops.parameters import fan_in, parameter
from cem_jax.ops.rotary import Rotary
from cem_jax.ops.visibility import Sites, Visible

__version__ = "0.1.0"

__all__ = [
    "CEMMLP",
    "CEMAttention",
    "CEMConfig",
    "CEMLayer",
    "ContextScoreConfig",
    "Descent",
    "DescentConfig",
    "ElementwiseConfig",
    "ElementwiseEnergy",
    "Energy",
    "EnergyOf",
    "InteractionConfig",
    "InteractionEnergy",
    "MHAConfig",
    "MemoryConfig",
    "MemoryEnergy",
    "PreconditionerConfig",
    "Recipe",
    "Rotary",
    "Sites",
    "StepSizeConfig",
    "SumConfig",
    "SumEnergy",
    "SwiGLUConfig",
    "Transformer",
    "TransformerConfig",
    "Visible",
    "accumulation_dtype",
    "descend",
    "fan_in",
    "parameter",
]
