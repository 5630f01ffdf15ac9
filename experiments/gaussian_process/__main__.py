"""The command: `python -m experiments.gaussian_process run`, then `report`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tyro

from cem_jax.ops.checks import require_count
from experiments.gaussian_process import report as reporting
from experiments.gaussian_process import runner, tuning
from experiments.gaussian_process.plan import CASES, SEEDS
from experiments.gaussian_process.prior import FIVE, ONE
from experiments.gaussian_process.results import FOLDER, finish_floor, finish_run
from experiments.gaussian_process.train import Training


def run(
    only: tuple[str, ...] = (),
    seeds: tuple[int, ...] = SEEDS,
    workers: int = 1,
    folder: Path = FOLDER,
) -> int:
    """Do the runs whose results are missing: 95, in 45 minutes on one core.

    Finished ones are skipped, so a run that was stopped goes on where it was; one that fails does
    not stop the others. Each writes one JSON file, whole or not at all.

    Args:
        only: names such as 1d-1layer-cem-t4; by default all.
        seeds: of parameters and data; the first is done for all models before the second.
        workers: how many at a time, each on one core.
        folder: of the results.
    """
    require_count("workers", workers)
    jobs = runner.missing(only, seeds, folder)
    for prior in (ONE, FIVE):
        finish_floor(prior, Training(), folder)
    failed = runner.work(jobs, functools.partial(runner.start, folder=folder), workers)
    if failed:
        print(f"failed: {', '.join(map(str, failed))}; the same command tries them again.")
    return 1 if failed else 0


def one(name: str, seed: int, folder: Path = FOLDER) -> int:
    """Do one run in this process; `run` starts these.

    Args:
        name: such as 1d-1layer-cem-t4.
        seed: of parameters and data.
        folder: of the results.
    """
    for job in runner.missing([name], [seed], folder):
        finish_run(CASES[job.name], job.seed, Training(), folder)
    return 0


def tune(folder: Path = FOLDER) -> int:
    """Do the trials of learning rate and first step size that tuning.json lacks.

    Args:
        folder: of the results.
    """
    tuning.tune(folder)
    return 0


def report() -> int:
    """Write table, figures and the result in the README from the files in results/ alone."""
    reporting.write_report()
    return 0


def main() -> int:
    """The exit status: 1 where runs failed, 2 where an argument is wrong."""
    commands: dict[str, Callable[..., Any]] = {
        "run": run,
        "one": one,
        "tune": tune,
        "report": report,
    }
    try:
        return tyro.extras.subcommand_cli_from_dict(
            commands, prog="python -m experiments.gaussian_process", description=__doc__
        )
    except ValueError as error:
        print(f"gaussian_process: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
