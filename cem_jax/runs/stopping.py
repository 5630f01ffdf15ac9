"""Ctrl-C and SIGTERM as a question that the loop asks, so that it can save first."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

import jax

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """While it is entered, the first signal only asks to stop; a second Ctrl-C stops at once.

    Args:
        tell: is told of the first signal, when the loop asks: a handler may not print, since it
            may have come in the middle of a print.

    Attributes:
        signal: the first that came, or None.
    """

    taken: tuple[signal.Signals, ...] = SIGNALS
    """Those that are asked for here."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self.signal: signal.Signals | None = None
        self._told = False
        self._before: dict[signal.Signals, object] = {}

    def begin(self, step: int) -> None:
        """So many steps were done before; a run that goes on says it before the first is asked."""

    def __call__(self) -> bool:
        """Whether a signal came; asked after each step."""
        if self.signal is not None and not self._told:
            self._told = True
            self._tell(f"{self.signal.name}: saving, then stopping (Ctrl-C again: at once)")
        return self.signal is not None

    def __enter__(self) -> StopSignals:
        try:
            self._before = {number: signal.signal(number, self._take) for number in self.taken}
        except ValueError:
            # Python gives signals to the main thread alone; elsewhere the caller has them.
            self._before = {}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal() returned

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)


class AgreedStop(StopSignals):
    """For several processes: a signal to one of them stops all after the same step.

    JAX's preemption service, which has SIGTERM from `Processes.start` on, settles on the step;
    Ctrl-C is handed to it.
    """

    taken = (signal.SIGINT,)

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(tell)
        self._steps = 0

    def begin(self, step: int) -> None:
        """Count from here: Orbax asks the same service at each save, with the step of the run."""
        self._steps = step

    def __call__(self) -> bool:
        """Whether this is the step; all processes ask after each, from the same one on."""
        from jax.experimental.multihost_utils import reached_preemption_sync_point

        self._steps += 1
        reached = bool(reached_preemption_sync_point(self._steps))
        if reached:
            self._tell("asked to stop: all processes save after this step, then stop")
            self.signal = self.signal or signal.SIGTERM
        return reached

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Where no signal came, the next SIGTERM ends the process.

        JAX's service would go on to keep it for a step that never comes, and what follows the steps
        could not be ended but by SIGKILL. A stop that was agreed on is left to it: SIGTERM may
        reach another process late.
        """
        super().__exit__(kind, error, trace)
        if self.signal is None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _take(self, number: int, frame: FrameType | None) -> None:
        super()._take(number, frame)
        os.kill(os.getpid(), signal.SIGTERM)


def stop_signals(tell: Callable[[str], None]) -> StopSignals:
    """`StopSignals` for one process, `AgreedStop` for several."""
    return (AgreedStop if jax.process_count() > 1 else StopSignals)(tell)
