"""A matrix product whose derivatives never ask for a transposed array of activations.

JAX writes the derivative of a product with a matrix as ``transpose(g^T x)``. XLA then copies the
wide cotangent ``g`` transposed, and on CPU fuses into that strided copy all the element-wise work
that led to ``g``: a third of an MLP's training step. Here the same derivative is ``x^T g``.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

from cem_jax.ops.checks import require_count, require_one_of

End = Literal["front", "back"]

NAME = "contract"
"""Of the primitive, as programs show it."""


def contract(
    x: Array, y: Array, axes: int = 1, *, x_end: End = "back", y_end: End = "front"
) -> Array:
    """sum_k x[..., k] y[k, ...]: the last axes of ``x`` against the first of ``y``.

    Differentiable to any order and in both modes, like `jax.numpy.tensordot`; a product of the same
    kind is its derivative, so that this holds for the gradient of an energy and for its own.

    Args:
        x: ``[*M, *K]``; the result has its other axes first.
        y: ``[*K, *N]``; cast with ``x`` to the wider of their dtypes.
        axes: how many axes are summed over, at least 1.
        x_end: whether those of ``x`` are its ``"back"`` or its ``"front"`` axes.
        y_end: likewise for ``y``.

    Returns:
        ``[*M, *N]``.

    Raises:
        ValueError: for axes that do not exist or do not match.
    """
    require_count("axes", axes)
    require_one_of("x_end", x_end, get_args(End))
    require_one_of("y_end", y_end, get_args(End))
    (over_x, _), (over_y, _) = _axes(x, axes, x_end), _axes(y, axes, y_end)
    if [x.shape[i] for i in over_x] != [y.shape[i] for i in over_y] or axes > min(x.ndim, y.ndim):
        raise ValueError(
            f"contract: got shapes {x.shape} and {y.shape}, expected the {axes} {x_end} axes of "
            f"the first to equal the {axes} {y_end} axes of the second."
        )
    dtype = jnp.promote_types(x.dtype, y.dtype)
    return _bind(x.astype(dtype), y.astype(dtype), axes=axes, x_end=x_end, y_end=y_end)


def _axes(x: Any, axes: int, end: End) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes that are summed over, and the others."""
    every = tuple(range(x.ndim))
    cut = axes if end == "front" else x.ndim - axes
    first, second = every[:cut], every[cut:]
    return (first, second) if end == "front" else (second, first)


def _dot(x: Array, y: Array, *, axes: int, x_end: End, y_end: End) -> Array:
    contracted = _axes(x, axes, x_end)[0], _axes(y, axes, y_end)[0]
    return lax.dot_general(x, y, (contracted, ((), ())))


def _other(end: End) -> End:
    return "back" if end == "front" else "front"


def _bind(x: Array, y: Array, *, axes: int, x_end: End, y_end: End) -> Array:
    """With no axes at all, as the derivative of a product with a vector has, an outer product."""
    return _primitive().bind(x, y, axes=axes, x_end=x_end, y_end=y_end)


def _transpose_x(cotangent: Array, x: Any, y: Array, *, axes: int, x_end: End, y_end: End) -> Array:
    free = y.ndim - axes
    if x_end == "back":
        return _bind(cotangent, y, axes=free, x_end="back", y_end=_other(y_end))
    return _bind(y, cotangent, axes=free, x_end=_other(y_end), y_end="back")


def _transpose_y(cotangent: Array, x: Array, y: Any, *, axes: int, x_end: End, y_end: End) -> Array:
    free = x.ndim - axes
    if y_end == "front":
        return _bind(x, cotangent, axes=free, x_end=_other(x_end), y_end="front")
    return _bind(cotangent, x, axes=free, x_end="front", y_end=_other(x_end))


def _abstract(x: Any, y: Any, **params: Any) -> Any:
    return jax.make_jaxpr(lambda x, y: _dot(x, y, **params))(x, y).out_avals[0]


def _batch(
    arguments: tuple[Array, Array], dimensions: Any, *, axes: int, x_end: End, y_end: End
) -> tuple[Array, int]:
    """Under vmap over one operand its axis joins the free ones; over both, an ordinary product."""
    (x, y), (over_x, over_y) = arguments, dimensions
    params: dict[str, Any] = {"axes": axes, "x_end": x_end, "y_end": y_end}
    if over_y is None:
        x = jnp.moveaxis(x, over_x, 0 if x_end == "back" else axes)
        return _bind(x, y, **params), 0
    if over_x is None:
        y = jnp.moveaxis(y, over_y, 0 if y_end == "back" else axes)
        return _bind(x, y, **params), x.ndim - axes
    return jax.vmap(lambda x, y: _dot(x, y, **params), in_axes=dimensions)(x, y), 0


@functools.cache
def _primitive() -> Primitive:
    """The bilinear primitive, registered when it is first used."""
    primitive = Primitive(NAME)
    primitive.def_impl(jax.jit(_dot, static_argnames=("axes", "x_end", "y_end")))
    primitive.def_abstract_eval(_abstract)
    mlir.register_lowering(primitive, mlir.lower_fun(_dot, multiple_results=False))
    ad.defbilinear(primitive, _transpose_x, _transpose_y)
    batching.primitive_batchers[primitive] = _batch
    return primitive
