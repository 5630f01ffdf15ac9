"""The layer is what it says: given another energy it follows that one, in a scan of length T."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from cem_jax.descent import DescentConfig, StepSizeConfig
from cem_jax.energies import Energy, InteractionConfig
from cem_jax.evaluation.certificate.certify import Row, compare
from cem_jax.evaluation.certificate.jaxprs import scan_lengths
from cem_jax.evaluation.certificate.problem import DIM
from cem_jax.evaluation.certificate.tolerances import TOLERANCE
from cem_jax.models import CEMLayer

ETA, DEPTHS = 0.3, (1, 2, 3)


class Bowl(Energy):
    """eps = |u|^2 / 2, whose descent is known: x^(T) = (1 - eta)^T h."""

    def __call__(self, u: Float[Array, "B L D"], context: Any) -> Float[Array, "B L"]:
        """The energy of each position."""
        return jnp.sum(jnp.square(u), axis=-1) / 2


@dataclasses.dataclass(frozen=True)
class BowlConfig:
    """Builds a `Bowl`."""

    def build(self, dim: int, *, rngs: nnx.Rngs) -> Bowl:
        """The energy, which has no parameters."""
        return Bowl()


def literalness_rows() -> list[Row]:
    """The closed form at each T in float64, and the scan of length T in the jaxpr."""
    with jax.enable_x64(True):
        h = jnp.asarray(np.random.default_rng(0).standard_normal((2, 3, DIM)))
        found = {f"T={T}": np.asarray(_layer(BowlConfig(), T)(h)) for T in DEPTHS}
        expected = {f"T={T}": (1 - ETA) ** T * np.asarray(h) for T in DEPTHS}
    name, tolerance = "another energy, |u|^2 / 2", TOLERANCE["float64"]
    rows = [compare(name, "float64", "layer = (1 - eta)^T h", found, expected, tolerance)]
    h32 = h.astype(jnp.float32)
    layers = {T: _layer(InteractionConfig(heads=4), T, "float32") for T in DEPTHS}
    wrong = [T for T, layer in layers.items() if scan_lengths(layer, h32) != [T]]
    text = f"wrong at T = {wrong}" if wrong else "T = 1, 2, 3"
    rows.append(
        Row("the jaxpr of a layer", "-", "one scan of length T", text, float(len(wrong)), 0.0, 3)
    )
    return rows


def _layer(energy: Any, steps: int, dtype: str = "float64") -> CEMLayer:
    descent = DescentConfig(steps, "none", StepSizeConfig(ETA, "fixed"))
    return CEMLayer(DIM, energy, descent, dtype=dtype, rngs=nnx.Rngs(0))
