"""Libraries that tell of every checkpoint they write, silenced."""

from __future__ import annotations

import logging


def quiet() -> None:
    """Errors only."""
    for name in ("absl", "orbax", "grain", "jax"):
        logging.getLogger(name).setLevel(logging.ERROR)
