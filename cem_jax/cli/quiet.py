"""Libraries that tell of every checkpoint they write, silenced."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

ORBAX = ("Event loop is closed", "cannot schedule new futures", "sys.meta_path is None")
"""What Orbax's threads leave behind where a read or a write failed."""


def quiet() -> None:
    """Errors only; and what Orbax says of a failure beside what it raises, which we explain."""
    from absl import logging as absl_logging

    for name in ("orbax", "grain", "jax"):
        logging.getLogger(name).setLevel(logging.ERROR)
    absl_logging.set_verbosity(absl_logging.FATAL)
    warnings.filterwarnings("ignore", message="coroutine .* was never awaited")
    before = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if not _left_behind(unraisable):
            before(unraisable)

    sys.unraisablehook = hook


def _left_behind(unraisable: sys.UnraisableHookArgs) -> bool:
    """Whether it is of Orbax; of the reads that fail in one state, each says kilobytes."""
    code = getattr(unraisable.object, "cr_code", None)
    of_orbax = code is not None and "orbax" in Path(code.co_filename).parts
    return of_orbax or any(words in str(unraisable.exc_value) for words in ORBAX)
