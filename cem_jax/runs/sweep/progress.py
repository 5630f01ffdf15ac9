"""What a sweep says when a run has ended, and what it writes then."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cem_jax.runs.reporting import Report
from cem_jax.runs.sweep.planned import Planned
from cem_jax.runs.sweep.processes import Ended
from cem_jax.runs.sweep.results import BITS, results, write_results


class Progress:
    """Follows the runs of a sweep to their ends.

    Args:
        planned: all runs.
        ahead: how many of them are to run now.
        out: the folder of the sweep.
        baseline: the variant that the others are compared with.
        report: what a run must have been evaluated on.
        say: is told a line for each run that has ended.

    Attributes:
        failed: a line for each run that failed.
    """

    def __init__(
        self,
        planned: Sequence[Planned],
        ahead: int,
        out: Path,
        baseline: str,
        *,
        report: Report,
        say: Callable[[str], None],
    ) -> None:
        self._planned, self._ahead, self._out = planned, ahead, out
        self._baseline, self._report, self._say = baseline, report, say
        self._done, self._start = 0, time.monotonic()
        self.failed: list[str] = []

    def ended(self, ended: Ended) -> None:
        """Say how it ended and how long the rest will take; bring sweep.json up to date."""
        self._done += 1
        name = ended.job.name
        run = next(run for run in self._planned if run.name == name)
        summary = run.summary(self._report) if ended.status == 0 else None
        if summary is None:
            self.failed.append(f"{name} failed: {ended.last_words()} ({ended.job.log})")
            what = f"FAILED with status {ended.status}: {ended.last_words()}"
        else:
            what = f"{summary[BITS]:.4f} valid bits per byte"
        each = (time.monotonic() - self._start) / self._done
        left = each * (self._ahead - self._done) / 60
        self._say(
            f"[{self._done}/{self._ahead}] {name}: {what}, {ended.seconds:.0f} s; "
            f"about {left:.0f} minutes left"
        )
        write_results(self._out, results(self._planned), self._baseline)
