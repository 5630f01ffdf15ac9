"""From jobs to a record: groups of sides, one group after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from cem_jax.runs.benchmark.record import Group, Measured, Record
from cem_jax.runs.benchmark.timing import Side, interleave

Tell = Callable[[str, int], None]
"""Is told the group at work and how many of its rounds are done."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A group that is still to be measured.

    Attributes:
        name: of the group.
        baseline: the side that ratios are taken to.
        sides: builds and compiles them, when their turn comes: what was measured is freed.
        rounds: of this group, where it differs from the others'.
    """

    name: str
    baseline: str
    sides: Callable[[], Sequence[Side]]
    rounds: int | None = None


def measure(
    record: Record,
    jobs: Sequence[Job],
    rounds: int,
    *,
    tell: Tell = lambda name, done: None,
    save: Callable[[Record], None] = lambda record: None,
    **options: Any,
) -> Record:
    """The record with the groups of all jobs.

    Ctrl-C ends it early: the rounds that were whole are kept, and the record is not complete.

    Args:
        record: says what is measured and where.
        jobs: what there is to do.
        rounds: of each group.
        tell: is told of the progress.
        save: is given the record after each group.
        options: of `interleave`.
    """
    try:
        for job in jobs:
            tell(job.name, 0)
            sides = list(job.sides())
            assert job.baseline in [side.name for side in sides]
            timed = [side for side in sides if side.run is not None]
            taken: list[dict[str, float]] = []
            try:
                for seconds in interleave(timed, job.rounds or rounds, **options) if timed else ():
                    taken.append(seconds)
                    tell(job.name, len(taken))
            finally:
                if taken or not timed:
                    record = _with(record, _group(job, sides, taken))
                    save(record)
    except KeyboardInterrupt:
        return record
    record = dataclasses.replace(record, complete=True)
    save(record)
    return record


def _with(record: Record, group: Group) -> Record:
    return dataclasses.replace(record, groups=(*record.groups, group))


def _group(job: Job, sides: Sequence[Side], taken: Sequence[dict[str, float]]) -> Group:
    measured = tuple(
        Measured(
            side.name,
            tuple(seconds[side.name] for seconds in taken if side.name in seconds),
            dict(side.figures),
        )
        for side in sides
    )
    return Group(job.name, job.baseline, measured)
