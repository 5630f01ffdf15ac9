"""Machines that are not here: the devices of a named TPU slice, to compile for."""

from __future__ import annotations

import os
from typing import Any


def topology_devices(name: str) -> list[Any]:
    """The devices of a TPU slice, as its compiler describes them; no such machine is needed.

    Args:
        name: generation and shape, such as ``"v5e:2x4"`` or ``"v6e:4x4"``, as JAX's
            `topologies.get_topology_desc` has them.

    Raises:
        ValueError: there is no compiler for TPUs here, or it knows no such slice.
    """
    from jax.experimental import topologies

    # The compiler would ask a cloud's server which machine this is.
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    try:
        described = topologies.get_topology_desc(platform="tpu", topology_name=name)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"topology: got {name!r}, which cannot be described ({type(error).__name__}: "
            f"{reason}), expected a TPU slice such as v5e:2x4, and the TPU compiler: pip install "
            f"'cem_jax[tpu]'."
        ) from error
    return list(described.devices)
