"""The runs of a sweep, from their folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cem_jax.runs.config import RunConfig
from cem_jax.runs.described import describe
from cem_jax.runs.folder import RunFolder
from cem_jax.runs.reporting import Report, Reported
from cem_jax.runs.resume import require_same

BITS = "valid_bits_per_byte"
"""What variants are compared by."""

LEFT_OUT = ("sample", "references")
"""What of a run's summary says nothing of a variant."""


class Planned(NamedTuple):
    """A run that a sweep asks for.

    Attributes:
        variant: its name.
        seed: of parameters and data.
        config: all that repeats it.
        path: its folder.
    """

    variant: str
    seed: int
    config: RunConfig
    path: Path

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.variant}, seed {self.seed}"

    def summary(self, report: Report) -> dict[str, Any] | None:
        """What the run reached; None where it has not ended or lacks some of the report.

        Raises:
            ValueError: the folder holds another run.
        """
        folder = RunFolder(self.path)
        if not folder.holds_a_run():
            return None
        require_same(folder.config(), {"config": describe(self.config)})
        summary = folder.summary()
        return summary if summary and Reported.of(report).satisfied_by(summary) else None


class Result(NamedTuple):
    """A run that has ended: its variant and seed, its ``summary.json`` and ``metrics.jsonl``."""

    variant: str
    seed: int
    summary: dict[str, Any]
    records: list[dict[str, Any]]


def results(planned: Sequence[Planned], report: Report) -> list[Result]:
    """Those that have ended, in their order."""
    found = []
    for run in planned:
        if (summary := run.summary(report)) is not None:
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
