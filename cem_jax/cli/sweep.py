"""`cem sweep`: variants x seeds, one table and one picture."""

from __future__ import annotations

import dataclasses
import functools
import sys
from pathlib import Path
from typing import Any

import tyro

from cem_jax.cli.train_options import parse
from cem_jax.runs.config import RunConfig
from cem_jax.runs.folder import RunFolder
from cem_jax.runs.lock import locked
from cem_jax.runs.reporting import Report
from cem_jax.runs.sweep.planned import Planned, jobs, plan, require_one_text
from cem_jax.runs.sweep.processes import run_all
from cem_jax.runs.sweep.progress import Progress
from cem_jax.runs.sweep.results import results, write_results
from cem_jax.runs.sweep.spec import SweepSpec, Variant, read_spec


@dataclasses.dataclass(frozen=True)
class Options:
    """Run every variant of a TOML file with every seed, and show them in one table and one picture.

    The file holds options of cem train by their names there:

        seeds = [0, 1, 2]       # variants with one seed see the same data in the same order
        baseline = "llama"      # what the others are compared with; by default the first

        [options]               # of every run
        preset = "micro"
        steps = 500

        [grid]                  # all combinations of these, for every variant
        "optimiser.learning-rate" = [0.01, 0.02]

        [[variants]]
        name = "llama"
        model = "llama"

        [[variants]]
        name = "cem-t1"
        model = "cem"
        "model.attention.descent.steps" = 1

    All options are checked before the first run. Each run is a process and a folder of its own,
    OUT/VARIANT-sSEED. The same line again goes on: what has ended is not run again, what was
    killed goes on from its newest state. A run that fails stops no other. OUT gets sweep.json,
    sweep.txt (the table) and sweep.png.
    """

    spec: tyro.conf.Positional[Path]
    """The TOML file."""

    out: Path | None = None
    """The folder of the sweep; by default runs/ and the name of the file."""

    workers: int = 1
    """How many runs at a time; each has its share of the processor cores."""

    report: Report = "valid"
    """What each run is evaluated on at its end: valid, which leaves the test text alone while
    choices are still being made; test, also for runs that have ended; or full, with n-grams."""

    dry_run: bool = False
    """Check the file and list the runs; run nothing."""


def main(arguments: list[str]) -> int:
    """Run ``cem sweep``; the status is 0, 1 where a run failed, 130 where it was interrupted.

    Raises:
        ValueError: an impossible file or option, before any work.
    """
    options = tyro.cli(Options, args=arguments, prog="cem sweep")
    if options.workers < 1:
        raise ValueError(f"workers: got {options.workers}, expected at least 1.")
    spec = read_spec(options.spec)
    out = Path("runs") / options.spec.stem if options.out is None else options.out
    if RunFolder(out).holds_a_run():
        raise ValueError(f"out: got {out}, which holds a run, expected another folder.")
    configs = {variant.name: config_of(variant) for variant in spec.variants}
    require_one_text(configs)
    planned = plan(spec, configs, out)
    ahead = [run for run in planned if run.summary(options.report) is None]
    print(f"{len(planned)} runs in {out}, {len(ahead)} of them to run", flush=True)
    if options.dry_run:
        print("\n".join(f"  {run.name}" for run in ahead))
        return 0
    RunFolder(out).create()
    try:
        # Two sweeps would take each other's runs for failed.
        with locked(out):
            return _run(planned, ahead, spec, out, options)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"cem sweep: {error}; the same line goes on with what has ended", file=sys.stderr)
        return 1


def _run(
    planned: list[Planned], ahead: list[Planned], spec: SweepSpec, out: Path, options: Options
) -> int:
    say = functools.partial(print, flush=True)
    report, baseline = options.report, spec.baseline
    progress = Progress(planned, len(ahead), out, baseline, report=report, say=say)
    try:
        todo = jobs(ahead, spec, out, report)
        run_all(todo, workers=options.workers, ended=progress.ended)
    except KeyboardInterrupt:
        print("cem sweep: interrupted, and saved; the same line goes on", file=sys.stderr)
        return 130
    _show(planned, spec, out)
    for run in progress.failed:
        print(f"cem sweep: {run}", file=sys.stderr)
    return 1 if progress.failed else 0


@dataclasses.dataclass(frozen=True)
class NoMore:
    """No options beside those of a run."""


def config_of(variant: Variant) -> RunConfig:
    """A variant's options, read as cem train reads them."""
    program = f"cem sweep, {variant.name}"
    try:
        return parse(list(variant.arguments), program=program, base=NoMore, description="")[0]
    except SystemExit as error:
        # What is wrong was said; which variant it is was not.
        raise ValueError(
            f"spec: got options of {variant.name!r} that cem train does not take (above), expected "
            f"its options by their names; cem train --help lists them."
        ) from error
    except ValueError as error:
        raise ValueError(f"spec: in {variant.name!r}: {error}") from error


def _show(planned: list[Planned], spec: SweepSpec, out: Path) -> None:
    # Imported here: what is above answers mistakes at once.
    from rich.console import Console

    from cem_jax.runs.sweep.picture import draw_sweep
    from cem_jax.runs.sweep.table import sweep_table

    found = results(planned)
    write_results(out, found, spec.baseline)
    if not found:
        return
    table: Any = sweep_table(found, spec.baseline)
    Console().print(table)
    with (out / "sweep.txt").open("w", encoding="utf-8") as file:
        Console(file=file, width=200).print(table)
    draw_sweep(out / "sweep.png", found, spec.baseline)
    print(f"The picture is {out / 'sweep.png'}.")
