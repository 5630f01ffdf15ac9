"""The mesh of a run, and where its state and its rows live on it."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

DATA = "data"
"""The mesh axis over which rows are spread."""


def data_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh of one axis, ``data``, in Auto mode; over the first device by default.

    Args:
        devices: which, in order.
    """
    devices = jax.devices()[:1] if devices is None else devices
    if not devices:
        raise ValueError("devices: got none, expected at least one; leave it out for the first.")
    return jax.make_mesh((len(devices),), (DATA,), axis_types=(AxisType.Auto,), devices=devices)


def replicated(mesh: Mesh) -> NamedSharding:
    """Everything on every device: the state of a run on such a mesh."""
    return NamedSharding(mesh, PartitionSpec())


def rows(mesh: Mesh) -> NamedSharding:
    """The first axis spread over the devices: a batch."""
    return NamedSharding(mesh, PartitionSpec(DATA))
