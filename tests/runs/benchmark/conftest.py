"""The scripts of a clone's ``benchmarks`` are imported as they import each other."""

import sys
from pathlib import Path

import pytest

from cem_jax.runs.benchmark.record import Group, Measured, Record

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"

# An installed package's tests may come without the scripts.
collect_ignore = (
    [] if BENCHMARKS.is_dir() else ["test_scripts.py", "test_targets.py", "test_peer.py"]
)
sys.path.insert(0, str(BENCHMARKS))


@pytest.fixture
def record():
    """Two sides in a group: the second takes 2, 4 and 1.5 times the first, for twice the FLOPs."""
    slow = Measured("slow", (2.0, 8.0, 1.5), {"flops": 20e9, "temporary_bytes": 3e6})
    base = Measured("base", (1.0, 2.0, 1.0), {"flops": 10e9, "temporary_bytes": 2e6})
    machine = {"processor": "P", "cpus": 2, "memory_bytes": 2**34, "device": "cpu"}
    return Record(
        measurement="diagonal",
        title="Two sides",
        command="python benchmarks/diagonal.py",
        date="2026-01-02T03:04:05+00:00",
        machine=machine | {"load_average": 0.1},
        versions={"python": "3.11", "jax": "0.10"},
        settings={"batch": 2},
        complete=True,
        groups=(Group("work", "base", (base, slow)),),
    )
