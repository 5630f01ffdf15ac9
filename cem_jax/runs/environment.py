"""Versions and machine of a run."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

VERSIONS = (
    "cem_jax",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "grain",
    "sentencepiece",
    "numpy",
)


def environment() -> dict[str, Any]:
    """Versions and machine: bits are promised to repeat where these do."""
    import jax

    devices = jax.devices()
    versions = {name: _version(name) for name in VERSIONS}
    return {
        "versions": {"python": platform.python_version(), **versions},
        "machine": {
            "platform": platform.platform(),
            "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
            "devices": len(devices),
            "device": devices[0].device_kind,
        },
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
