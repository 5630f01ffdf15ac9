"""How far `cem data prepare` is: bytes, their rate and the time left."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bar

from cem_jax.data.prepared import Manifest

EVERY = 30.0
"""Seconds between lines, where the output is no terminal."""


class Progress:
    """A line that moves on a terminal, and one now and then in a log."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar = Bar(
            TextColumn("read"),
            BarColumn(bar_width=24),
            DownloadColumn(),
            TransferSpeedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("read", total=None)
        self._start = self._said = time.monotonic()

    def told(self, read: int, total: int) -> None:
        """So many bytes of the source have been read, of so many in this call."""
        self._bar.update(self._task, completed=read, total=total)
        now = time.monotonic()
        if self._bar.disable and now - self._said >= EVERY:
            self._said = now
            self._console.print(line(read, total, now - self._start), highlight=False)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()


def line(read: int, total: int, seconds: float) -> str:
    """Bytes read, their rate, and the minutes left at that rate."""
    rate = read / max(seconds, 1e-9)
    left = f"about {(total - read) / rate / 60:.0f} minutes left" if read else "nothing read yet"
    done = f"{read / 1e6:,.1f} of {total / 1e6:,.1f} MB"
    return f"{done} read, {rate / 1e6:.2f} MB/s, {left}"


def ended(manifest: Manifest, out: Path) -> str:
    """What was made, and what to do with it."""
    tally = manifest.tally
    train = tally.total("train")
    skipped = tally.lines + tally.files
    broken = f"; {tally.lines} lines and {tally.files} files were broken and skipped"
    return (
        f"{out}: {len(manifest.shards)} shards, {train.documents:,} documents and "
        f"{train.targets:,} targets to train on{broken if skipped else ''}\n"
        f"look into it: cem data inspect {shlex.quote(str(out))}\n"
        f"train on it:  cem train --data {shlex.quote(str(out))} --length {manifest.length}"
    )
