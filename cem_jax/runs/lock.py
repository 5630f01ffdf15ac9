"""One process at a time in a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder, until the process ends or is killed.

    Raises:
        ValueError: another process holds it: it would clean away what this one is writing.
    """
    try:
        import fcntl
    except ImportError:
        # Not on this system; nothing else is lost.
        yield
        return
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(
                f"out: got {folder}, in which another process works, expected a folder of its "
                f"own; wait for it, or choose another name."
            ) from error
        yield
