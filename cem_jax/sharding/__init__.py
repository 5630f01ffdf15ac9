"""Where arrays live: meshes, rules of logical axes, and the layouts of state and batches."""

from cem_jax.sharding.layout import Layout
from cem_jax.sharding.mesh import MeshShape
from cem_jax.sharding.rules import RULES, Rules

__all__ = ["RULES", "Layout", "MeshShape", "Rules"]
