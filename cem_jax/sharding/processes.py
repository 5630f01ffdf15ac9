"""Processes: how those of one run find each other, and what they must agree on."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import jax
import numpy as np

AUTO = "auto"
"""Processes that JAX finds itself."""

GONE = re.compile("(UNKNOWN|UNAVAILABLE|ABORTED|CANCELLED|INTERNAL|DEADLINE_EXCEEDED): ")
"""How XLA's words begin where a collective did not come about; one that lacks memory says so."""

FAREWELL = 60
"""Seconds for which a process that ends waits for the others: one that ends alone has failed."""


class OtherProcessError(Exception):
    """Another process of this run could not do its part; it says why itself."""


class ProcessGoneError(OtherProcessError):
    """Another process of this run has gone: nothing can be agreed any more."""


@dataclasses.dataclass(frozen=True)
class Processes:
    """The processes of one run, one for each host.

    Attributes:
        coordinator: ``"HOST:PORT"`` of the first process, where the others can reach it; None
            where JAX finds all of this itself, as on TPU slices, and under Slurm, Open MPI and GKE.
        index: of this process, from 0.
        count: how many there are, at least 1.
    """

    coordinator: str | None = None
    index: int | None = None
    count: int | None = None

    @classmethod
    def parse(cls, text: str) -> Processes:
        """What ``--processes`` names: "auto", or "INDEX/COUNT@HOST:PORT".

        Raises:
            ValueError: it names neither.
        """
        if text == AUTO:
            return cls()
        found = re.fullmatch(r"(\d+)/(\d+)@(.+:\d+)", text)
        if found is None or int(found[1]) >= int(found[2]):
            raise ValueError(
                f"processes: got {text!r}, expected {AUTO!r}, or INDEX/COUNT@HOST:PORT with an "
                f"index below the count, such as 0/2@10.0.0.1:7601 for the first of two."
            )
        return cls(found[3], int(found[1]), int(found[2]))

    def start(self, *, timeout: int = 300) -> None:
        """Wait for the others; from here on `jax.devices` are those of all of them.

        Args:
            timeout: seconds.

        Raises:
            ValueError: JAX cannot find them, or they did not come.
        """
        try:
            jax.distributed.initialize(
                self.coordinator,
                self.count,
                self.index,
                initialization_timeout=timeout,
                shutdown_timeout_seconds=FAREWELL,
            )
        except (RuntimeError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ValueError(
                f"processes: got {self}, which did not find each other ({reason}), expected all "
                f"to be started within {timeout} s with one coordinator that each can reach; where "
                f"JAX knows no cluster, give INDEX/COUNT@HOST:PORT."
            ) from error

    def __str__(self) -> str:
        if self.coordinator is None:
            return AUTO
        return f"{self.index}/{self.count}@{self.coordinator}"


def is_first() -> bool:
    """Whether this process writes and speaks for all."""
    return jax.process_index() == 0


def gathered(values: Any) -> np.ndarray:
    """The values of all processes, ``[P, ...]``; each must call it, with one shape.

    Args:
        values: numbers of at most 32 bits.

    Raises:
        ProcessGoneError: one did not, and will not.
    """
    values = np.asarray(values)
    if jax.process_count() == 1:
        return values[None]
    from jax.experimental.multihost_utils import process_allgather

    try:
        return np.asarray(process_allgather(values))
    except Exception as error:
        if (gone := of_one_gone(error)) is None:
            raise
        raise gone from error


def of_one_gone(error: Exception) -> ProcessGoneError | None:
    """The error of another process that has gone, where that is what XLA's error says.

    XLA raises JaxRuntimeError or ValueError, by where it is noticed, with words such as
    ``"UNKNOWN: Gloo all-reduce failed"``.
    """
    of_xla = isinstance(error, jax.errors.JaxRuntimeError | ValueError)
    if jax.process_count() == 1 or not of_xla or not GONE.match(str(error)):
        return None
    reason = " ".join(str(error).split())[:120]
    return ProcessGoneError(f"another process has gone ({reason} ...)")


def require_agreed(value: Any) -> None:
    """Refuse a value, as JSON can hold it, that is not the same on all processes.

    Raises:
        ValueError: on all, where it differs on one.
    """
    digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()
    found = gathered(np.frombuffer(digest, np.uint32))
    differing = [index for index, each in enumerate(found) if (each != found[0]).any()]
    if differing:
        raise ValueError(
            f"processes: got another run on the processes {', '.join(map(str, differing))} than on "
            f"the first, expected one line, one text and one folder for all; compare the options "
            f"and cem data inspect of each host."
        )


@contextlib.contextmanager
def together() -> Iterator[None]:
    """What fails in the ``with`` block on one process fails on all, at its end.

    Raises:
        OtherProcessError: on those where it went well.
    """
    try:
        yield
    except Exception:
        gathered(True)
        raise
    if gathered(False).any():
        raise OtherProcessError("another process could not go on; it says why")


def by_first(work: Callable[[], Any]) -> None:
    """Let the first process work while the others wait: before it all have come, after it all go.

    Raises:
        OtherProcessError: on the others, where the first failed; there, what it raised.
    """
    gathered(True)
    with together():
        if is_first():
            work()


def leave(status: int) -> NoReturn:
    """End this process at once: what failed cannot wait for the others, which may not come."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
