"""Several processes of one run on this machine, each with one simulated device."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent import futures


class Several:
    """Processes that find each other through a free port.

    Args:
        count: how many.
        line: what each runs, to which ``--processes`` is added.
    """

    def __init__(self, count: int, line: Sequence[object]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.processes = [
            subprocess.Popen(
                [*map(str, line), "--processes", f"{index}/{count}@127.0.0.1:{port}"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                # A process that is told to abort then says where each of its threads was.
                env={**os.environ, "JAX_NUM_CPU_DEVICES": "1", "PYTHONFAULTHANDLER": "1"},
            )
            for index in range(count)
        ]

    def until(self, holds: Callable[[], bool], seconds: float = 300) -> None:
        """Wait until this holds, or the first process has ended, which `ended` then tells.

        Raises:
            AssertionError: neither came in so many seconds; with what each was doing.
        """
        late = time.monotonic() + seconds
        while not holds() and self.processes[0].poll() is None:
            if time.monotonic() > late:
                self.ended(0)
            time.sleep(0.05)

    def ended(self, seconds: float = 300) -> tuple[list[int], list[tuple[str, str]]]:
        """Statuses, and what each printed on its two streams.

        Raises:
            AssertionError: one goes on after so many seconds; with what each was doing.
        """
        late = []

        def said(process: subprocess.Popen[str]) -> tuple[str, str]:
            try:
                return process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                late.append(process)
                process.send_signal(signal.SIGABRT)
                return process.communicate()

        # Side by side: one whose pipe is full would keep the others waiting.
        with futures.ThreadPoolExecutor(len(self.processes)) as pool:
            all_said = list(pool.map(said, self.processes))
        assert not late, f"{len(late)} of {len(all_said)} went on after {seconds} s: {all_said}"
        return [process.returncode for process in self.processes], all_said
