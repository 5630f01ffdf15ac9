"""The runs of a sweep, from their folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cem_jax.runs.folder import RunFolder
from cem_jax.runs.sweep.planned import Planned

BITS = "valid_bits_per_byte"
"""What variants are compared by."""

LEFT_OUT = ("sample", "references")
"""What of a run's summary says nothing of a variant."""


class Result(NamedTuple):
    """A run that has ended: its variant and seed, its ``summary.json`` and ``metrics.jsonl``."""

    variant: str
    seed: int
    summary: dict[str, Any]
    records: list[dict[str, Any]]


def results(planned: Sequence[Planned]) -> list[Result]:
    """Those that have ended, in their order, whatever they were evaluated on."""
    found = []
    for run in planned:
        if (summary := run.summary("valid")) is not None:
            metrics = RunFolder(run.path).metrics()
            found.append(Result(run.variant, run.seed, summary, metrics))
    return found


def by_variant(found: Sequence[Result], figure: str = BITS) -> dict[str, dict[int, float]]:
    """A figure of the summaries, by variant and seed."""
    values: dict[str, dict[int, float]] = {}
    for result in found:
        if figure in result.summary:
            values.setdefault(result.variant, {})[result.seed] = float(result.summary[figure])
    return values


def write_results(out: Path, found: Sequence[Result], baseline: str) -> None:
    """All summaries as ``sweep.json``, for programs; whole or not at all."""
    runs = [
        {
            "variant": result.variant,
            "seed": result.seed,
            **{key: value for key, value in result.summary.items() if key not in LEFT_OUT},
        }
        for result in found
    ]
    RunFolder(out).write("sweep.json", {"baseline": baseline, "runs": runs})
