"""Where arrays live: meshes, and the layouts of state and batches."""

from cem_jax.sharding.mesh import data_mesh, replicated, rows

__all__ = ["data_mesh", "replicated", "rows"]
