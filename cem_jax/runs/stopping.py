"""Ctrl-C and SIGTERM as a question that the loop asks, so that it can save first."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """While it is entered, the first signal only asks to stop; a second Ctrl-C stops at once.

    Args:
        tell: is told of the first signal, when the loop asks: a handler may not print, since it
            may have come in the middle of a print.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._signal: signal.Signals | None = None
        self._told = False
        self._before: dict[signal.Signals, object] = {}

    def __call__(self) -> bool:
        """Whether a signal came."""
        if self._signal is not None and not self._told:
            self._told = True
            self._tell(f"{self._signal.name}: saving, then stopping (Ctrl-C again: at once)")
        return self._signal is not None

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
        if self._signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._signal = signal.Signals(number)
