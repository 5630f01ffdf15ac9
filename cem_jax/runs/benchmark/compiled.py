"""What a compiled program says of itself, and how often one is compiled."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax

_EVENT = "/jax/core/compile/backend_compile_duration"


def temporary_bytes(compiled: Any) -> int:
    """The memory a compiled program needs beside its arguments and results; exact, unlike a clock.

    Args:
        compiled: what ``jax.jit(f).lower(...).compile()`` returns.
    """
    return int(compiled.memory_analysis().temp_size_in_bytes)


class Count:
    """A number that goes up."""

    def __init__(self) -> None:
        self.value = 0


@contextlib.contextmanager
def compilations() -> Iterator[Count]:
    """Counts the programs that are compiled inside the ``with`` block."""
    count = Count()

    def listen(event: str, duration_secs: float, **more: Any) -> None:
        count.value += event == _EVENT

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield count
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
