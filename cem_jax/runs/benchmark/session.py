"""A measurement from its plan to its files, with a line that shows how far it is."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from cem_jax.runs.benchmark import table
from cem_jax.runs.benchmark.machine import described_machine, described_versions
from cem_jax.runs.benchmark.measuring import Job, measure
from cem_jax.runs.benchmark.record import Record, write
from cem_jax.runs.progress import RunConsole

Draw = Callable[[Record, Path], None]

INTERRUPTED = 130
"""The exit status after Ctrl-C."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a measurement is.

    Attributes:
        measurement: a word, which also names its files.
        title: what is measured, in a line.
        settings: shapes and options, for the record.
        jobs: the groups.
        pictures: by what is added to the name of the file.
        packages: whose versions matter beside our own.
        pause: seconds before each side; see `interleave`.
    """

    measurement: str
    title: str
    settings: Mapping[str, Any]
    jobs: Sequence[Job]
    pictures: Mapping[str, Draw] = dataclasses.field(default_factory=dict)
    packages: Sequence[str] = ()
    pause: float = 0.0


def carry_out(
    plan: Plan, rounds: int, command: str, out: Path | None = None, label: str = ""
) -> int:
    """Measure, print the table, and write ``NAME.json``, ``NAME.md`` and pictures.

    Args:
        plan: what to measure.
        rounds: of each group.
        command: that repeats it, for the record.
        out: the folder for the files; None writes none.
        label: is added to their names, where several machines or versions are measured.

    Returns:
        0, or 130 after Ctrl-C, when what was measured is kept.

    Raises:
        ValueError: the folder cannot be made.
    """
    name = "-".join(part for part in (plan.measurement, label) if part)
    path = None if out is None else _folder(out) / f"{name}.json"
    record = Record(
        measurement=plan.measurement,
        title=plan.title,
        command=command,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=described_machine(),
        versions=described_versions(*plan.packages),
        settings=dict(plan.settings),
    )
    console = RunConsole()
    record = _measure(record, plan, rounds, console, path)
    if record.groups:
        console.print(table.for_console(record))
    if path is not None and record.groups:
        files = publish(record, path, plan.pictures)
        written = f"Written: {', '.join(map(str, files))}"
        console.print(written, soft_wrap=True, highlight=False, markup=False)
    if record.complete:
        return 0
    kept = f"{len(record.groups)} of {len(plan.jobs)} groups"
    console.print(f"Interrupted: {kept} were measured, the last perhaps with fewer rounds.")
    return INTERRUPTED


def publish(record: Record, path: Path, pictures: Mapping[str, Draw]) -> list[Path]:
    """The record as JSON, as a table of Markdown and as pictures, all of one name."""
    files = [path, path.with_suffix(".md")]
    write(record, path)
    files[1].write_text(table.markdown(record), encoding="utf-8")
    for suffix, draw in pictures.items():
        files.append(path.with_name(f"{path.stem}{suffix}.png"))
        draw(record, files[-1])
    return files


def _measure(
    record: Record, plan: Plan, rounds: int, console: RunConsole, path: Path | None
) -> Record:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed}/{task.total} rounds"),
        TimeElapsedColumn(),
    )
    # Few refreshes: the line itself must not be what is measured.
    with Progress(*columns, console=console, transient=True, refresh_per_second=1) as progress:
        task = progress.add_task("compiling", total=None)
        total = {job.name: job.rounds or rounds for job in plan.jobs}

        def tell(name: str, done: int) -> None:
            progress.update(task, description=name, completed=done, total=total[name])

        def save(record: Record) -> None:
            if path is not None:
                write(record, path)

        return measure(record, plan.jobs, rounds, tell=tell, save=save, pause=plan.pause)


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"out: got {out}, which cannot be made ({error.strerror}), expected a folder; choose "
            f"another."
        ) from error
    return out
