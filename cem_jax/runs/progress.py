"""The live line of a training run."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class RunConsole(Console):
    """A console whose reader may go (`| head`): the run goes on for its folder, in silence."""

    def on_broken_pipe(self) -> None:
        """Print nothing more; rich would end the program."""
        self.quiet = True
        # What is still in the buffer goes nowhere, also at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class LiveLine:
    """Step, loss, tokens per second, utilisation (MFU) and time left, in one line that moves.

    Where the output is no terminal the line is left out; `say` prints there too.

    Args:
        console: where it is drawn.
        steps: how many there are.
    """

    def __init__(self, console: Console, steps: int) -> None:
        self.console = console
        self.meter = Meter()
        columns = (
            TextColumn("step {task.completed:,.0f}/{task.total:,.0f}"),
            BarColumn(bar_width=24),
            TextColumn("loss {task.fields[loss]:.3f}  {task.fields[rate]:,.0f} tokens/s"),
            TextColumn("{task.fields[mfu]}left"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal)
        empty = float("nan")
        self._task = self._progress.add_task("train", total=steps, loss=empty, rate=0.0, mfu="")

    def record(self, records: list[dict[str, Any]]) -> None:
        """Move on to the last of the records; one that was skipped has no loss."""
        self.meter.record(records)
        shown: dict[str, Any] = {"rate": self.meter.tokens_per_second}
        last = records[-1]
        # Only where the peak of the device is known.
        shown["mfu"] = f"MFU {last['mfu']:.1%}  " if "mfu" in last else ""
        if losses := [record["loss"] for record in records if "loss" in record]:
            shown["loss"] = losses[-1]
        self._progress.update(self._task, completed=last["step"], **shown)

    def start_at(self, step: int, seconds: float) -> None:
        """Begin after steps that were done before, in so many seconds."""
        self.meter = Meter(seconds)
        self._progress.update(self._task, completed=step)

    def say(self, text: str) -> None:
        """A line of its own, above the live one."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> LiveLine:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()


class Meter:
    """Tokens per second of training, compilation left out where there is more than one record.

    Args:
        seconds: on the clock of the records when it begins.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.tokens = 0.0
        self._begin = (0.0, seconds)
        self._start: tuple[float, float] | None = None
        self._now = self._begin

    def record(self, records: list[dict[str, Any]]) -> None:
        """Count the tokens of these steps."""
        self.tokens += sum(record["tokens"] for record in records)
        self._now = (self.tokens, records[-1]["seconds"])
        # The first of the records ends after the compilation.
        self._start = self._now if self._start is None else self._start

    @property
    def tokens_per_second(self) -> float:
        """The rate so far; 0 before the first record."""
        start = self._begin if self._start in (None, self._now) else self._start
        tokens, seconds = (now - then for now, then in zip(self._now, start, strict=True))
        return tokens / seconds if seconds > 0 else 0.0
