"""The gated MLP with its down projection tied, and Phi by quadrature; equation (6) by hand."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf
from jaxtyping import Array

from cem_jax.energies import ElementwiseConfig
from cem_jax.evaluation.certificate.hand import HandEnergy, HandForm, Parameters
from cem_jax.ops.visibility import Sites

QUADRATURE_POINTS = 32
"""Enough for rounding errors only on |z| <= 12: silu's nearest poles are +-i pi."""

PHI_AT_ZERO = {"silu": -(math.pi**2) / 12, "gelu": -0.25, "squared_relu": 0.0}
"""The constants by which Phi vanishes where z goes to minus infinity."""


def phi(z: Array, activation: str) -> Array:
    """The activation, from its definition."""
    if activation == "silu":
        return z / (1 + jnp.exp(-z))
    if activation == "gelu":
        return z * 0.5 * (1 + erf(z / math.sqrt(2)))
    return jnp.maximum(z, 0) ** 2


def phi_integral(z: Array, activation: str) -> Array:
    """Phi(z) = Phi(0) + z int_0^1 phi(z s) ds, by Gauss-Legendre; Phi of (7) without its formulae.

    Meant for |z| <= 12.
    """
    nodes, weights = np.polynomial.legendre.leggauss(QUADRATURE_POINTS)
    at = jnp.asarray((nodes + 1) / 2, z.dtype)
    mean = jnp.sum(phi(z[..., None] * _last(at, z), activation) * _last(weights / 2, z), axis=-1)
    return z * mean + PHI_AT_ZERO[activation]


def _last(values: Array | np.ndarray, z: Array) -> Array:
    """A vector as the last axis behind those of ``z``."""
    return jnp.asarray(values, z.dtype).reshape((1,) * z.ndim + (-1,))


def hand_mlp(config: ElementwiseConfig) -> HandForm:
    """The MLP W_u^T [gate * hidden], down tied to up.

    nonlinear: gate = Wg c, hidden = phi(Wu u); quadratic: gate = phi(Wg c), hidden = Wu u.

    Args:
        config: the options of the energy.

    Returns:
        A form on the parameters of `ElementwiseEnergy`.
    """
    quadratic, activation = config.form == "quadratic", config.activation

    def form(parameters: Parameters, c: Array, sites: Sites) -> HandEnergy:
        up = parameters["up"]
        gate = c @ parameters["gate"]
        if quadratic:
            gate = phi(gate, activation)

        def value(u: Array) -> Array:
            z = u @ up
            inner = z * z / 2 if quadratic else phi_integral(z, activation)
            return -jnp.sum(gate * inner, axis=-1)

        def update(u: Array) -> Array:
            z = u @ up
            return (gate * (z if quadratic else phi(z, activation))) @ up.T

        return HandEnergy(value, update)

    return form
