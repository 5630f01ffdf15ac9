"""The jaxprs inside an equation: bodies of loops, branches, calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr


def inner_jaxprs(equation: Any) -> Iterator[Jaxpr]:
    """Those among the parameters of a jaxpr's equation, in order."""
    for value in equation.params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, ClosedJaxpr):
                yield item.jaxpr
            elif isinstance(item, Jaxpr):
                yield item
