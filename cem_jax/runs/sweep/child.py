"""Becomes a command of Python's, on the cores it is given, and ends when its parent does.

    python child.py PARENT CORES -m MODULE ...

Run as a file: what it imports is all that comes before the command itself.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""Linux's name for the signal that a process gets when its parent ends; kept by exec."""


def main(parent: str, cores: str, *command: str) -> None:
    """Replace this process; a parent that was killed leaves no run behind that nobody watches."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):
            sys.exit("the sweep has ended")
        if cores:
            os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    os.execv(sys.executable, [sys.executable, *command])


if __name__ == "__main__":
    main(*sys.argv[1:])
