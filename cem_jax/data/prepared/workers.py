"""Workers: parts made by several processes, of which none outlives the one that asked."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from cem_jax.data.prepared.config import PrepareConfig
from cem_jax.data.prepared.part import Part, make_part
from cem_jax.data.tokenizer import load_tokenizer

POLL = 0.5
"""Seconds between looks at what has been read."""

_OWN: dict[str, Any] = {}
"""What a worker process was begun with."""


def make_parts(
    parts: Sequence[Part],
    config: PrepareConfig,
    tokenizer: Path,
    *,
    workers: int,
    told: Callable[[int], None],
) -> None:
    """Make all parts.

    Args:
        parts: in any order.
        config: how.
        tokenizer: the folder of the tokenizer.
        workers: how many processes; with one it is this one.
        told: is told now and then how many bytes of the files have been read so far.

    Raises:
        ValueError: something is broken, and that stops the work; or a process was killed.
    """
    if workers == 1 or len(parts) < 2:
        own, read = load_tokenizer(tokenizer), 0

        def advanced(count: int) -> None:
            nonlocal read
            read += count
            told(read)

        for part in parts:
            make_part(part, config, own, advanced)
        return
    try:
        _in_processes(parts, config, tokenizer, workers, told)
    except BrokenProcessPool as error:
        raise ValueError(
            "workers: got a process that was killed, expected all to end (memory may have been "
            "short); run the same again, with fewer --workers: it goes on."
        ) from error
    except ValueError as error:
        # Raised again from here: where a worker raised it is of no help.
        raise ValueError(str(error)) from error


def _in_processes(
    parts: Sequence[Part],
    config: PrepareConfig,
    tokenizer: Path,
    workers: int,
    told: Callable[[int], None],
) -> None:
    # Not forked: JAX has threads.
    context = multiprocessing.get_context("spawn")
    stop, lock, read = context.Event(), context.Lock(), context.RawValue("q", 0)
    begun = (config, tokenizer, stop, lock, read)
    with ProcessPoolExecutor(min(workers, len(parts)), context, _begin, begun) as pool:
        waiting = {pool.submit(_make, part) for part in parts}
        try:
            while waiting:
                done, waiting = wait(waiting, POLL, FIRST_COMPLETED)
                told(read.value)
                for future in done:
                    future.result()
        except BaseException:
            # What the others have begun is begun again: nobody waits for it.
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _begin(config: PrepareConfig, tokenizer: Path, stop: Any, lock: Any, read: Any) -> None:
    """Begin a worker process."""
    # Ctrl-C is for the process that asked, which says stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        while parent.is_alive() and not stop.wait(POLL):
            pass
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()

    def advanced(count: int) -> None:
        with lock:
            read.value += count

    _OWN.update(config=config, tokenizer=load_tokenizer(tokenizer), advanced=advanced)


def _make(part: Part) -> None:
    make_part(part, _OWN["config"], _OWN["tokenizer"], _OWN["advanced"])
