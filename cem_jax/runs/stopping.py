"""Ctrl-C and SIGTERM as a question that the loop asks, so that it can save first."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """While it is entered, the first signal only asks to stop; a second Ctrl-C stops at once.

    Args:
        tell: is told of the first signal.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._asked = False
        self._before: dict[signal.Signals, object] = {}

    def __call__(self) -> bool:
        """Whether a signal came."""
        return self._asked

    def __enter__(self) -> StopSignals:
        try:
            self._before = {number: signal.signal(number, self._take) for number in SIGNALS}
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
        if self._asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._asked = True
        name = signal.Signals(number).name
        self._tell(f"{name}: saving after this step, then stopping (Ctrl-C again: at once)")
