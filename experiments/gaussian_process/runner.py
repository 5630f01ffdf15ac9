"""Does the runs that are missing, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from cem_jax.ops.checks import nearest
from experiments.gaussian_process.plan import CASES
from experiments.gaussian_process.results import run_path

ROOT = Path(__file__).parents[2]
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"


class Job(NamedTuple):
    """A run to do."""

    name: str
    seed: int

    def __str__(self) -> str:
        return f"{self.name}-s{self.seed}"


def missing(names: Iterable[str], seeds: Iterable[int], folder: Path) -> list[Job]:
    """The runs without a result: all cases of the first seed, then of the second.

    Args:
        names: of cases; none means all.
        seeds: S, those of the runs.
        folder: where the results are.

    Raises:
        ValueError: an unknown name.
    """
    names = tuple(names) or tuple(CASES)
    for name in names:
        if name not in CASES:
            known, hint = ", ".join(CASES), nearest(name, CASES)
            raise ValueError(f"only: got {name!r}, expected names among {known}.{hint}")
    jobs = [Job(name, seed) for seed in seeds for name in names]
    return [job for job in jobs if not run_path(CASES[job.name], job.seed, folder).exists()]


def start(job: Job, folder: Path) -> str:
    """Do one run in a process of its own; what it said where it failed, or nothing.

    One thread for each process: its bits do not depend on how many cores there are.
    """
    module = ["-m", "experiments.gaussian_process", "one"]
    options = ["--name", job.name, "--seed", str(job.seed), "--folder", str(folder.resolve())]
    flags = f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD}".strip()
    done = subprocess.run(
        [sys.executable, *module, *options],
        cwd=ROOT,
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else f"exit status {done.returncode}: {done.stderr[-1500:]}"


def work(jobs: Sequence[Job], start: Callable[[Job], str], workers: int) -> list[Job]:
    """Do all jobs, say how far it is and how long it will take; those that failed.

    Args:
        jobs: in this order.
        start: does one; returns what it said where it failed, or nothing.
        workers: how many at a time.
    """
    begin, failed = time.perf_counter(), []
    with ThreadPoolExecutor(workers) as pool:
        futures = {pool.submit(start, job): job for job in jobs}
        try:
            for number, future in enumerate(as_completed(futures), 1):
                job, complaint = futures[future], future.result()
                if complaint:
                    failed.append(job)
                left = (time.perf_counter() - begin) / number * (len(jobs) - number) / 60
                end = f"FAILED, {complaint}" if complaint else "done"
                print(f"{number}/{len(jobs)} {job} {end}; {left:.0f} minutes left", flush=True)
        except BaseException:
            # Without it the pool would first do all that waits.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return failed
