"""Phi of equation (7) in the table: plain, given, by quadrature, and by central differences."""

from __future__ import annotations

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from cem_jax.evaluation.certificate.certify import Row, compare
from cem_jax.evaluation.certificate.compiling import compiled
from cem_jax.evaluation.certificate.finite_differences import central_difference
from cem_jax.evaluation.certificate.hand_mlp import phi, phi_integral
from cem_jax.evaluation.certificate.tolerances import FINITE_DIFFERENCE, TOLERANCE
from cem_jax.ops.potentials import Activation, ElementwiseBackend, potential

NEAR, FAR = 12.0, 40.0


def potential_rows(activations: tuple[Activation, ...] = get_args(Activation)) -> list[Row]:
    """Three rows in float64 and one in float32 for each activation."""
    return [row for activation in activations for row in _rows(activation)]


def _rows(activation: Activation) -> list[Row]:
    name, tight = f"Phi of {activation}", TOLERANCE["float64"]
    with jax.enable_x64(True):
        # An even number of points keeps off the kink of squared_relu's second derivative.
        near, far = jnp.linspace(-NEAR, NEAR, 400), jnp.linspace(-FAR, FAR, 400)
        exact = compiled(lambda points: _measured(points[0], points[1], activation), True)(
            (near, far)
        )
    narrow = compiled(lambda z: _of(z, activation, "given"), True)(near.astype(jnp.float32))
    exact, narrow = jax.tree.map(np.asarray, (exact, narrow))
    given, plain, hand = exact["given"], exact["plain"], exact["hand"]
    close, wide = f"|z| <= {NEAR:.0f}", f"|z| <= {FAR:.0f}"
    return [
        compare(name, "float64", f"B (given) = A, {close}", given, plain, tight),
        compare(name, "float64", f"A = C (quadrature), {close}", plain, hand, tight),
        compare(
            name,
            "float64",
            f"B = C (differences), {wide}",
            exact["far"],
            exact["differences"],
            FINITE_DIFFERENCE,
        ),
        compare(name, "float32", "B = C (quadrature)", narrow, hand, TOLERANCE["float32"]),
    ]


def _measured(near: Array, far: Array, activation: Activation) -> dict[str, dict[str, Array]]:
    slope = central_difference(lambda t: potential(far + t, activation))
    return {
        "given": _of(near, activation, "given"),
        "plain": _of(near, activation, "plain"),
        "hand": {"value": phi_integral(near, activation), "derivative": phi(near, activation)},
        "far": {"derivative": _of(far, activation, "given")["derivative"]},
        "differences": {"derivative": slope},
    }


def _of(z: Array, activation: Activation, backend: ElementwiseBackend) -> dict[str, Array]:
    value, derivative = jax.jvp(
        lambda z: potential(z, activation, backend), (z,), (jnp.ones_like(z),)
    )
    return {"value": value, "derivative": derivative}
