"""A profile of a few steps: where their time goes, on the host and on the devices."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import jax

from cem_jax.data import Batch
from cem_jax.training.state import State
from cem_jax.training.step import Metrics, Step


@dataclasses.dataclass(frozen=True)
class Window:
    """Steps that are profiled: from ``first`` to ``last``, both included, from 1."""

    first: int
    last: int

    @classmethod
    def parse(cls, given: str, steps: int) -> Window:
        """``"100:110"``, of a run of so many steps.

        Raises:
            ValueError: it is no such range, has no step, or ends after the last of the run.
        """
        if not (found := re.fullmatch(r"(\d+):(\d+)", given)):
            raise ValueError(
                f"profile: got {given!r}, expected FIRST:LAST, two numbers of steps such as "
                f"100:110."
            )
        first, last = int(found[1]), int(found[2])
        if not 1 <= first <= last <= steps:
            raise ValueError(
                f"profile: got {given}, expected 1 <= FIRST <= LAST <= {steps}, the steps of this "
                f"run; choose some of them."
            )
        return cls(first, last)


class Profiler:
    """Writes a trace of the steps of a window, for TensorBoard's or Perfetto's viewer.

    Use it in a ``with`` block, which ends a trace that is cut short.

    Args:
        folder: where the trace goes.
        window: the steps; None profiles nothing.
        say: is told where it lies, or why there is none.
    """

    def __init__(self, folder: Path, window: Window | None, say: Callable[[str], None]) -> None:
        self._folder, self._window, self._say = folder, window, say
        self._running = False

    def of(self, step: Step, begin: int) -> Step:
        """The same step, profiled in the window.

        Args:
            step: see `make_step`; its calls are those of the steps after ``begin``, in order.
            begin: how many steps are done.
        """
        if (window := self._window) is None:
            return step
        if begin >= window.last:
            self._say(
                f"profile: the steps {window.first}:{window.last} are behind this run, which goes "
                f"on after step {begin}: nothing is profiled"
            )
            return step
        number = begin

        def profiled(state: State, batch: Batch) -> tuple[State, Metrics]:
            nonlocal number
            number += 1
            if not window.first <= number <= window.last:
                return step(state, batch)
            if not self._running:
                # Steps before it may still be running.
                jax.block_until_ready(state)
                self._start()
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                result = step(state, batch)
            if number == window.last:
                jax.block_until_ready(result)
                self._stop()
            return result

        return profiled

    def _start(self) -> None:
        jax.profiler.start_trace(str(self._folder))
        self._running = True

    def _stop(self) -> None:
        self._running = False
        jax.profiler.stop_trace()
        self._say(f"profile: written to {self._folder}; look at it with tensorboard or xprof")

    def __enter__(self) -> Profiler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._running:
            self._stop()
