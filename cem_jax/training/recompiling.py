"""A training step that is compiled again: minutes lost at each new shape, and nobody is told."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

import jax

from cem_jax.data.packing import Batch
from cem_jax.training.fingerprint import shape
from cem_jax.training.state import State
from cem_jax.training.step import Metrics, Step

EVENT = "/jax/core/compile/backend_compile_duration"
"""What `jax.monitoring` tells of each program that is compiled."""


class _Compiled(threading.local):
    """Seconds of compilation in this thread: others, such as one that saves, compile too."""

    seconds = 0.0


_COMPILED = _Compiled()


def told_of_recompiling(step: Step, begin: int, say: Callable[[str], None]) -> Step:
    """The same step, which says so where a call after the first compiles.

    Args:
        step: see `make_step`; its calls are those of the steps after ``begin``, in order.
        begin: how many steps are done.
        say: is told the number of the step, the seconds it took, and what of the batch is new.
    """
    _listen()
    number, compiled = begin, ""

    def told(state: State, batch: Batch) -> tuple[State, Metrics]:
        nonlocal number, compiled
        before, number = _COMPILED.seconds, number + 1
        result = step(state, batch)
        if (seconds := _COMPILED.seconds - before) > 0:
            shapes = ", ".join(dict.fromkeys(map(shape, jax.tree.leaves(batch))))
            if number > begin + 1:
                say(_message(number, seconds, compiled, shapes))
            compiled = shapes
        return result

    return told


def _message(number: int, seconds: float, before: str, now: str) -> str:
    why = (
        "the shapes of its batch are those of before: something else of its arguments changed, "
        "such as where they live"
        if before == now
        else f"its batch is of {now}, before of {before}"
    )
    return f"warning: step {number:,} was compiled again, which took {seconds:.1f} s: {why}"


@functools.cache
def _listen() -> None:
    """Once in a process: a listener cannot be taken away again."""

    def heard(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == EVENT:
            _COMPILED.seconds += duration_secs

    jax.monitoring.register_event_duration_secs_listener(heard)
