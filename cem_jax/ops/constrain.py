"""Where activations say their axes: the one seam between the models and a mesh."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array


@runtime_checkable
class Placement(Protocol):
    """What a mesh and its rules do to activations; installed by `placing`."""

    def constrain(self, x: Array, axes: str) -> Array:
        """``x`` laid out as the rules say."""
        ...

    def by_parts(
        self, function: Callable[..., Any], inputs: Any, outputs: Any, over: str
    ) -> Callable[..., Any]:
        """``function`` on each device's part of its arguments."""
        ...


_installed: list[Placement] = []


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
    return _installed[-1].constrain(x, axes) if _installed else x


def by_parts(
    function: Callable[..., Any], inputs: Any, outputs: Any, *, over: str
) -> Callable[..., Any]:
    """``function`` itself, or ``function`` on each device's part of its arguments.

    For what takes rows and positions in a loop: a compiler cannot spread the rounds of a loop, and
    would add up what it sums in every round.

    Args:
        function: treats the places along the axes ``over`` alike, and apart from each other but
            for sums.
        inputs: the names of the axes of each argument, in a tuple of trees like the arguments; an
            axis that is not in ``over`` is whole.
        outputs: those of the result; what lacks an axis that is spread is a sum over it.
        over: the names of the axes that may be spread, such as ``"B L"``.
    """
    return _installed[-1].by_parts(function, inputs, outputs, over) if _installed else function


@contextlib.contextmanager
def placing(placement: Placement) -> Iterator[None]:
    """Install a placement for the functions traced inside the ``with`` block."""
    _installed.append(placement)
    try:
        yield
    finally:
        _installed.pop()
