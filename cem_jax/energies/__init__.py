"""What a layer minimises: pure functions of (u | context) that do not know how."""

from cem_jax.energies.base import Context, Energy, EnergyConfig, EnergyOf, require_energy_config
from cem_jax.energies.context_terms import ContextScoreConfig, RelativeBias, require_relative_bias
from cem_jax.energies.elementwise import ElementwiseConfig, ElementwiseEnergy
from cem_jax.energies.interaction import InteractionConfig, InteractionEnergy
from cem_jax.energies.memory import MemoryConfig, MemoryEnergy
from cem_jax.energies.sum import SumConfig, SumEnergy

__all__ = [
    "Context",
    "ContextScoreConfig",
    "ElementwiseConfig",
    "ElementwiseEnergy",
    "Energy",
    "EnergyConfig",
    "EnergyOf",
    "InteractionConfig",
    "InteractionEnergy",
    "MemoryConfig",
    "MemoryEnergy",
    "RelativeBias",
    "SumConfig",
    "SumEnergy",
    "require_energy_config",
    "require_relative_bias",
]
