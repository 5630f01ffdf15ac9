"""Static counts, checked."""

from __future__ import annotations


def require_count(name: str, value: int) -> None:
    """Refuse anything but a Python integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(
            f"{name}: got {value!r}, expected a Python integer of at least 1; it is static, part "
            f"of the compiled program."
        )
