"""Whose mistake an error is: what this package refuses explains itself."""

from __future__ import annotations

from pathlib import Path

import cem_jax


def is_ours(error: ValueError) -> bool:
    """Whether a line of this package raised it; of any other the origin must be shown."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    package = Path(cem_jax.__file__).parent
    return trace is not None and package in Path(trace.tb_frame.f_code.co_filename).parents
