"""Programs that many tests build anew, compiled once.

It halves the time of the tests of derivatives with JAX 0.10, and saves nothing with 0.12.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache


def settings(folder: Path, *, seconds: float = 0.0) -> dict[str, Any]:
    """Of JAX, by name: what takes so long to compile is kept in a folder."""
    return {
        "jax_enable_compilation_cache": True,
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": seconds,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }


@contextlib.contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """What this process compiles is kept in a folder, and read from there."""
    before = {name: getattr(jax.config, name) for name in settings(folder)}
    _use(settings(folder))
    yield
    _use(before)


def _use(values: dict[str, Any]) -> None:
    for name, value in values.items():
        jax.config.update(name, value)
    # The folder is looked at once, by the first program.
    compilation_cache.reset_cache()
