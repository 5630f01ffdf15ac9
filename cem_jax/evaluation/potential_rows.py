"""Phi of equation (7) in the table: plain, given, by quadrature, and by central differences."""

from __future__ import annotations

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np

from cem_jax.evaluation.certificate import Row, compare
from cem_jax.evaluation.finite_differences import central_difference
from cem_jax.evaluation.hand_mlp import phi, phi_integral
from cem_jax.evaluation.tolerances import FINITE_DIFFERENCE, TOLERANCE
from cem_jax.ops.potentials import Activation, ElementwiseBackend, potential

NEAR, FAR = 12.0, 40.0


def potential_rows() -> list[Row]:
    """Three rows for each activation, and one in float32."""
    return [row for activation in get_args(Activation) for row in _rows(activation)]


def _rows(activation: Activation) -> list[Row]:
    name = f"Phi of {activation}"
    with jax.enable_x64(True):
        near = jnp.linspace(-NEAR, NEAR, 401)
        given, plain = _of(near, activation, "given"), _of(near, activation, "plain")
        hand = {
            "value": np.asarray(phi_integral(near, activation)),
            "derivative": np.asarray(phi(near, activation)),
        }
        # Off the kink of squared_relu's second derivative.
        far = jnp.linspace(-FAR, FAR, 400)
        slope = central_difference(lambda t: potential(far + t, activation))
        found = {"derivative": _of(far, activation, "given")["derivative"]}
        differences = {"derivative": np.asarray(slope)}
    narrow = _of(near.astype(jnp.float32), activation, "given")
    tight = TOLERANCE["float64"]
    return [
        compare(name, "float64", f"B (given) = A, |z| <= {NEAR:.0f}", given, plain, tight),
        compare(name, "float64", f"A = C (quadrature), |z| <= {NEAR:.0f}", plain, hand, tight),
        compare(
            name,
            "float64",
            f"B = C (differences), |z| <= {FAR:.0f}",
            found,
            differences,
            FINITE_DIFFERENCE,
        ),
        compare(name, "float32", "B = C (quadrature)", narrow, hand, TOLERANCE["float32"]),
    ]


def _of(z: jax.Array, activation: Activation, backend: ElementwiseBackend) -> dict[str, np.ndarray]:
    value, derivative = jax.jvp(
        lambda z: potential(z, activation, backend), (z,), (jnp.ones_like(z),)
    )
    return {"value": np.asarray(value), "derivative": np.asarray(derivative)}
