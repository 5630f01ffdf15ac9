"""Checks of static options, shared so that every message says the same three things."""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Iterable
from typing import Any

LONGEST_ROW = 1 << 24
"""Tokens of a row, at most: some 16 million."""

MOST_TOKENS = 1 << 30
"""Tokens of a batch, at most: some 1,000 million."""


def require_count(name: str, value: Any) -> None:
    """Refuse anything but a Python integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(
            f"{name}: got {value!r}, expected a Python integer of at least 1, static and never "
            f"traced; choose one."
        )
    if value < 1:
        raise ValueError(f"{name}: got {value}, expected at least 1; choose a larger one.")


def require_length(length: Any) -> None:
    """Refuse a row that no machine trains on: it is in memory as a whole, with activations."""
    require_count("length", length)
    if length > LONGEST_ROW:
        raise ValueError(
            f"length: got {length:,} tokens in a row, expected at most {LONGEST_ROW:,}, as a row "
            f"is in memory as a whole with activations of every token; choose a shorter one."
        )


def require_tokens(batch: int, length: int) -> None:
    """Refuse a batch that no machine holds."""
    if batch * length > MOST_TOKENS:
        raise ValueError(
            f"batch: got {batch:,} rows of {length:,} tokens, expected at most {MOST_TOKENS:,} "
            f"tokens in all, as a batch is in memory as a whole; choose fewer or shorter rows."
        )


def require_positive(name: str, value: Any) -> None:
    """Refuse anything but a positive number that float32 and its reciprocal can hold."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or not 1e-30 < float(value) < 1e30:
        raise ValueError(
            f"{name}: got {value!r}, expected a finite positive number, between 1e-30 and 1e30; "
            f"pass a Python float."
        )


def require_within(name: str, value: Any, low: int, high: int, *, open_above: bool = False) -> None:
    """Refuse a number outside [low, high], or [low, high) where it is open above."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or not low <= value <= high or (open_above and value == high):
        bracket = ")" if open_above else "]"
        raise ValueError(
            f"{name}: got {value!r}, expected a number in [{low}, {high}{bracket}; choose one in "
            f"that range."
        )


def require_kind(name: str, value: Any, kind: type | tuple[type, ...]) -> None:
    """Refuse a value of another type, which would fail later and elsewhere."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        expected = " or ".join(one.__name__ for one in kinds)
        raise ValueError(f"{name}: got {value!r}, expected {expected}; pass one of that type.")


def require_kind_or_none(name: str, value: Any, kind: type) -> None:
    """The same, where None stands for none."""
    if value is not None:
        require_kind(name, value, kind)


def require_one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    """Refuse a name that is not among the known ones."""
    if value not in known:
        raise ValueError(f"{name}: got {value!r}, expected one of {known}; choose one of these.")


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message: `` Did you mean ...?`` with the nearest known name, if one is near."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {close[0]}?" if close else ""


def head_width(dim: int, heads: int, head_dim: int | None) -> int:
    """K: the given one, or D / H where it divides."""
    if head_dim is None and dim % heads:
        raise ValueError(
            f"heads: got {heads} for width {dim}, expected a divisor of the width; choose one, or "
            f"set head_dim."
        )
    return dim // heads if head_dim is None else head_dim


def require_heads(heads: Any, key_heads: Any, head_dim: Any) -> None:
    """Refuse counts of heads that do not fit; None stands for the default."""
    require_count("heads", heads)
    for name, value in (("key_heads", key_heads), ("head_dim", head_dim)):
        if value is not None:
            require_count(name, value)
    if key_heads is not None and heads % key_heads:
        raise ValueError(
            f"heads, key_heads: got {heads} and {key_heads}, expected heads to be a multiple of "
            f"key_heads; choose a divisor of {heads}."
        )
