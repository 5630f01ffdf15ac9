"""FLOPs from the jaxpr, of any function and of its derivative."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import Jaxpr
from jax.interpreters.partial_eval import dce_jaxpr

from cem_jax.ops.contract import NAME as CONTRACT
from cem_jax.ops.jaxprs import inner_jaxprs


def count_flops(function: Callable[..., Any], *arguments: Any) -> int:
    """The FLOPs of the matrix products that a function asks for: 2 M N K each.

    Counts every product of the jaxpr, times the length of the scans around it; of conditional
    branches the dearest. Masked-out work counts, fused or not. Element-wise work does not.

    Args:
        function: traced by `jax.make_jaxpr`.
        arguments: arrays or shapes.

    Returns:
        FLOPs, with a multiplication and an addition each counted.

    Raises:
        ValueError: for matrix products inside a `while` loop, whose length no one knows.
    """
    closed = jax.make_jaxpr(function)(*arguments)
    # What nobody uses is not computed: the energy's value, where only its gradient is asked for.
    live, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.out_avals))
    return _flops(live)


def count_flops_with_derivative(function: Callable[..., Any], *arguments: Any) -> int:
    """The FLOPs of the products of a function and of its derivative in all arguments.

    Counted in forward mode: transposing a linear map keeps its products, each with its M, N and K
    in other roles, and what `jax.checkpoint` would recompute for the reverse is not counted.

    Args:
        function: of floating arrays.
        arguments: arrays or shapes.

    Returns:
        FLOPs, those of the forward pass included.

    Raises:
        ValueError: as `count_flops`.
    """

    def with_tangents(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        return jax.jvp(function, primals, tangents)

    return count_flops(with_tangents, arguments, arguments)


def _flops(jaxpr: Jaxpr) -> int:
    return sum(_equation_flops(equation) for equation in jaxpr.eqns)


def _equation_flops(equation: Any) -> int:
    name, parameters = equation.primitive.name, equation.params
    if name == "dot_general":
        (contracted, _), _ = parameters["dimension_numbers"]
        depth = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
        return 2 * depth * math.prod(equation.outvars[0].aval.shape)
    if name == CONTRACT:
        # Without batch axes each of M, N and K stands in two of the three shapes.
        return 2 * math.isqrt(math.prod(map(_size, (*equation.invars, *equation.outvars))))
    inner = [_flops(jaxpr) for jaxpr in inner_jaxprs(equation)]
    if name == "scan":
        return parameters["length"] * sum(inner)
    if name == "cond":
        return max(inner)
    if name == "while" and any(inner):
        raise ValueError(
            "count_flops: got matrix products inside a while loop, expected a scan, whose length "
            "is known; write the loop with jax.lax.scan or a static fori_loop."
        )
    return sum(inner)


def _size(variable: Any) -> int:
    return math.prod(variable.aval.shape)
