"""Where a measurement was made: processor, memory, load and versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

from cem_jax.runs.environment import environment


def described_machine() -> dict[str, Any]:
    """Processor, cores, memory in bytes, device, and the load before the measurement."""
    return {
        **environment()["machine"],
        "processor": _processor(),
        "memory_bytes": _memory(),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def described_versions(*more: str) -> dict[str, Any]:
    """Versions of Python, of our libraries and of ``more`` packages that are installed."""
    return {
        **environment()["versions"],
        **{name: importlib.metadata.version(name) for name in more},
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
