"""Phi, the potentials of element-wise energies: Phi' is the activation of a gated MLP."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array

from cem_jax.ops.checks import require_one_of
from cem_jax.ops.dtypes import accumulation_dtype

Activation = Literal["silu", "gelu", "squared_relu"]
ElementwiseBackend = Literal["given", "plain"]


def _silu(z: Array) -> Array:
    return z * jax.lax.logistic(z)


def _dilogarithm(y: Array) -> Array:
    """Li2(-y) = spence(1 + y) for 0 <= y <= 1, smooth and without a branch.

    The library's `spence` evaluates logarithms of negative numbers in branches it does not take:
    its derivative is right in forward mode and NaN in reverse mode for every 0 < y <= 1.
    """
    # Landen: Li2(-y) = -Li2(w) - log(1 + y)^2 / 2 with w = y / (1 + y) <= 1/2, where 45 terms of
    # Li2(w) = sum_k w^k / k^2 leave less than 2^-56.
    w = y / (1 + y)
    series = functools.reduce(lambda total, k: (total + 1 / k**2) * w, range(45, 0, -1), 0 * w)
    return -series - jnp.square(jnp.log1p(y)) / 2


def _silu_potential(z: Array) -> Array:
    # Each branch sees only arguments for which it is finite: `where` on the result alone would
    # let the NaN derivative of the branch not taken through. Built from primitives (no softplus),
    # so that no custom rule stands under the plain form.
    below, above = jnp.where(z > 0, 0.0, z), jnp.where(z > 0, z, 0.0)
    low = below * jnp.log1p(jnp.exp(below)) + _dilogarithm(jnp.exp(below))
    softplus = above + jnp.log1p(jnp.exp(-above))
    constant = math.pi**2 / 6
    high = above * softplus - constant - jnp.square(above) / 2 - _dilogarithm(jnp.exp(-above))
    return jnp.where(z > 0, high, low)


def _normal_cdf(z: Array) -> Array:
    # (1 + erf) / 2 would cancel in the left tail: 6 % off at z = -5 in float32.
    return jax.lax.erfc(-z / math.sqrt(2)) / 2


def _normal_pdf(z: Array) -> Array:
    return jnp.exp(-jnp.square(z) / 2) / math.sqrt(2 * math.pi)


def _gelu(z: Array) -> Array:
    wide = z.astype(accumulation_dtype(z))
    return (wide * _normal_cdf(wide)).astype(z.dtype)


def _gelu_potential(z: Array) -> Array:
    return ((jnp.square(z) - 1) * _normal_cdf(z) + z * _normal_pdf(z)) / 2


def _squared_relu(z: Array) -> Array:
    positive = jnp.where(z > 0, z, 0.0)
    return positive * positive


def _squared_relu_potential(z: Array) -> Array:
    positive = jnp.where(z > 0, z, 0.0)
    return positive * positive * positive / 3


_PHI: dict[str, Callable[[Array], Array]] = {
    "silu": _silu,
    "gelu": _gelu,
    "squared_relu": _squared_relu,
}
_POTENTIAL: dict[str, Callable[[Array], Array]] = {
    "silu": _silu_potential,
    "gelu": _gelu_potential,
    "squared_relu": _squared_relu_potential,
}


def require_activation(name: str) -> None:
    """Refuse a name that is no activation."""
    require_one_of("activation", name, get_args(Activation))


def activate(z: Array, activation: Activation) -> Array:
    """phi(z), element by element, in the dtype of ``z``.

    ``silu`` z sigmoid(z); ``gelu`` z cdf(z), the erf form; ``squared_relu`` max(z, 0)^2.
    """
    require_activation(activation)
    return _PHI[activation](z)


def potential(z: Array, activation: Activation, backend: ElementwiseBackend = "given") -> Array:
    """Phi(z) with Phi' = phi, element by element; equation (7).

    ``silu``: z softplus(z) + Li2(-e^z) for z <= 0, and
    z softplus(z) - pi^2/6 - z^2/2 - Li2(-e^-z) for z > 0, with Li2(-y) = spence(1 + y).
    ``gelu``: ((z^2 - 1) cdf(z) + z pdf(z)) / 2. ``squared_relu``: max(z, 0)^3 / 3.

    Args:
        z: any shape, any floating dtype.
        activation: the name of phi.
        backend: ``"given"`` carries Phi' = phi as its derivative; ``"plain"`` has no custom rule
            under it.

    Returns:
        Phi(z) in float32 or wider.
    """
    require_activation(activation)
    require_one_of("backend", backend, get_args(ElementwiseBackend))
    wide = z.astype(accumulation_dtype(z))
    if backend == "plain":
        return _POTENTIAL[activation](wide)
    return _GIVEN[activation](wide)


def _make_given(activation: str) -> Callable[[Array], Array]:
    @jax.custom_jvp
    def value(z: Array) -> Array:
        return _POTENTIAL[activation](z)

    @value.defjvp
    def rule(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (z,), (dz,) = primals, tangents
        return value(z), _PHI[activation](z) * dz

    return value


_GIVEN = {activation: _make_given(activation) for activation in _PHI}
