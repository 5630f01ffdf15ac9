"""Where activations say their axes: the one seam between the models and a mesh."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from jaxtyping import Array

Constraint = Callable[[Array, str], Array]

_installed: list[Constraint] = []


def constrain(x: Array, axes: str) -> Array:
    """``x`` itself, or ``x`` laid out as the installed rules say for these logical axes.

    Args:
        x: an activation.
        axes: one name per axis, such as ``"B L D"``.

    Returns:
        An array of equal value. The rules are read when a function is traced: build a jitted
        step inside their scope.
    """
    if len(axes.split()) != x.ndim:
        raise ValueError(f"axes: got {axes!r} for shape {x.shape}, expected one name per axis.")
    return _installed[-1](x, axes) if _installed else x


@contextlib.contextmanager
def constraining(constraint: Constraint) -> Iterator[None]:
    """Install a constraint for the functions traced inside the ``with`` block."""
    _installed.append(constraint)
    try:
        yield
    finally:
        _installed.pop()
