"""Kinds of files that hold documents, known by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from cem_jax.data.reading import require_zstandard

KINDS = {
    "jsonl": re.compile(r"\.jsonl(\.gz|\.xz|\.zst)?$"),
    "parquet": re.compile(r"\.parquet$"),
    "text": re.compile(r"\.txt(\.gz|\.xz|\.zst)?$"),
}
"""How the names of a kind end."""


def kind_of(name: str) -> str | None:
    """The kind of a file, or None."""
    return next((kind for kind, end in KINDS.items() if end.search(name.lower())), None)


def require_packages(paths: Iterable[Path]) -> None:
    """Refuse files that a missing package would read, before any work.

    Raises:
        ValueError: one is not installed; the message says how to get it.
    """
    checks = {".zst": require_zstandard, ".parquet": require_pyarrow}
    for path in paths:
        if (check := checks.pop(path.suffix.lower(), None)) is not None:
            check(path)


def require_pyarrow(path: Path) -> None:
    """Refuse a parquet file where pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise ValueError(
            f"data: got {path}, expected the package pyarrow to read it with; run pip install "
            f"'cem_jax[parquet]'."
        ) from error
