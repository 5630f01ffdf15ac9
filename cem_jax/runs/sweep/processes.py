"""Commands in processes of their own, several at a time; one that fails stops no other."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

POLL = 0.2
"""Seconds between looks at the processes."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A command of Python's to run.

    Attributes:
        name: what it is called.
        command: the words after ``python``, such as ``("-m", "cem_jax.cli.main", "train")``.
        log: the file that gets its output, appended.
        variables: of its environment, where they are not set already.
    """

    name: str
    command: tuple[str, ...]
    log: Path
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Ended:
    """A job that has ended, its exit status, and how long it took."""

    job: Job
    status: int
    seconds: float
    start: int = 0
    """Where its part of the log begins: before it are the words of earlier attempts."""

    def last_words(self) -> str:
        """The last line of its log, or the signal that killed it."""
        if self.status < 0:
            return f"killed by {signal.Signals(-self.status).name}"
        try:
            said = self.job.log.read_bytes()[self.start :]
        except OSError as error:
            return f"its log cannot be read ({error.strerror})"
        lines = said.decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def run_all(jobs: Iterable[Job], *, workers: int, ended: Callable[[Ended], None]) -> None:
    """Run the jobs, at most ``workers`` at a time, in their order.

    Each worker has the processor cores that fall to it: jobs that fight for them are slower than
    one after the other, and bits repeat for a number of cores. An interruption is passed on to
    the jobs that run, which are then waited for.

    Args:
        jobs: taken one by one, when a worker is free.
        workers: at least 1.
        ended: is told of each that has ended, whatever its status.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM; no job runs any more.
    """
    waiting, shares = iter(jobs), deque(core_shares(workers))
    running: list[tuple[Job, subprocess.Popen, float, tuple[int, ...], int]] = []
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        while True:
            while shares and (job := next(waiting, None)) is not None:
                share = shares.popleft()
                said = job.log.stat().st_size if job.log.is_file() else 0
                running.append((job, _start(job, share), time.monotonic(), share, said))
            if not running:
                return
            time.sleep(POLL)
            for entry in [entry for entry in running if entry[1].poll() is not None]:
                running.remove(entry)
                job, process, start, share, said = entry
                shares.append(share)
                ended(Ended(job, process.returncode, time.monotonic() - start, said))
    finally:
        _stop([entry[1] for entry in running])
        signal.signal(signal.SIGTERM, before)


def core_shares(workers: int) -> list[tuple[int, ...]]:
    """The cores of each worker; empty, for all, where there are not enough of them."""
    known = hasattr(os, "sched_getaffinity")
    cores = sorted(os.sched_getaffinity(0)) if known else []
    if workers > len(cores):
        return [()] * workers
    return [tuple(cores[worker::workers]) for worker in range(workers)]


def _start(job: Job, share: Sequence[int]) -> subprocess.Popen:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    child = Path(__file__).with_name("child.py")
    words = [str(child), str(os.getpid()), ",".join(map(str, share)), *job.command]
    with job.log.open("ab") as log:
        # A session of its own: Ctrl-C reaches it through this process, and once.
        return subprocess.Popen(
            [sys.executable, *words],
            env={**job.variables, **os.environ},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _stop(processes: list[subprocess.Popen]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
