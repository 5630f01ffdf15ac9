"""What a traced function is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
from jax.extend.core import Jaxpr

from cem_jax.ops.jaxprs import inner_jaxprs

CUSTOM_RULES = ("custom_jvp_call", "custom_vjp_call")


def equations(function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
    """Every equation of the function's jaxpr, those inside loops and calls included."""
    yield from _walk(jax.make_jaxpr(function)(*arguments).jaxpr)


def custom_rules(function: Callable[..., Any], *arguments: Any) -> int:
    """How many calls in it carry a derivative of their own, those of JAX itself left out.

    JAX writes the rules of some of its functions so: softplus, and in some versions erf.
    """
    found = equations(function, *arguments)
    return sum(e.primitive.name in CUSTOM_RULES and not _of_jax(e) for e in found)


def _of_jax(equation: Any) -> bool:
    """Whether the function with the custom rule stands in a file of JAX."""
    source = equation.params["call_jaxpr"].jaxpr.debug_info.func_src_info
    return source is not None and str(Path(jax.__file__).parent) in source


def scan_lengths(function: Callable[..., Any], *arguments: Any) -> list[int]:
    """The lengths of its scans."""
    found = equations(function, *arguments)
    return [e.params["length"] for e in found if e.primitive.name == "scan"]


def _walk(jaxpr: Jaxpr) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for inner in inner_jaxprs(equation):
            yield from _walk(inner)
