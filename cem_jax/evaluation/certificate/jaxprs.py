"""What a traced function is made of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
from jax.extend.core import Jaxpr

from cem_jax.ops.jaxprs import inner_jaxprs

CUSTOM_RULES = ("custom_jvp_call", "custom_vjp_call")

LIBRARY_RULES = frozenset({"logaddexp", "exp_neg_sq"})
"""JAX's own functions that are written with a rule: softplus, in P, and the derivative of erf in
some versions. A softmax or a fused attention under column A counts as a custom rule."""


def equations(function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
    """Every equation of the function's jaxpr, those inside loops and calls included."""
    yield from _walk(jax.make_jaxpr(function)(*arguments).jaxpr)


def custom_rules(function: Callable[..., Any], *arguments: Any) -> int:
    """How many calls in it carry a derivative of their own, those of JAX itself left out.

    See `LIBRARY_RULES`.
    """
    found = equations(function, *arguments)
    return sum(e.primitive.name in CUSTOM_RULES and not _of_jax(e) for e in found)


def _of_jax(equation: Any) -> bool:
    """Whether it is one of JAX's own functions that `LIBRARY_RULES` names."""
    source = equation.params["call_jaxpr"].jaxpr.debug_info.func_src_info or ""
    name, _, file = source.partition(" at ")
    return name in LIBRARY_RULES and file.startswith(f"{Path(jax.__file__).parent}{os.sep}")


def scan_lengths(function: Callable[..., Any], *arguments: Any) -> list[int]:
    """The lengths of its scans."""
    found = equations(function, *arguments)
    return [e.params["length"] for e in found if e.primitive.name == "scan"]


def _walk(jaxpr: Jaxpr) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for inner in inner_jaxprs(equation):
            yield from _walk(inner)
