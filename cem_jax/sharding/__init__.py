"""Where arrays live: meshes, rules of logical axes, layouts, and the processes that share them."""

from cem_jax.sharding.layout import Layout
from cem_jax.sharding.mesh import MeshShape
from cem_jax.sharding.processes import Processes
from cem_jax.sharding.rules import RULES, Rules

__all__ = ["RULES", "Layout", "MeshShape", "Processes", "Rules"]
