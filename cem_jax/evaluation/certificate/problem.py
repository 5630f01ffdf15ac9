"""The point at which columns are compared: parameters away from their start, and ragged data."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from cem_jax.descent import DescentConfig
from cem_jax.energies import EnergyConfig
from cem_jax.evaluation.certificate.compiling import compiled
from cem_jax.evaluation.certificate.hand import Parameters
from cem_jax.models import CEMLayer
from cem_jax.ops.visibility import Sites

DIM = 16
NORM_EPS = 1e-5
SPREAD, SPREAD_OF_ZEROS, NOISE = 0.1, 0.2, 0.3


class Problem(NamedTuple):
    """Everything a column is a function of.

    Attributes:
        parameters: of the whole layer.
        h: ``[B, L, D]``, the layer's input, and the context of the energy alone.
        u: ``[B, L, D]``, where the energy alone is evaluated.
        layer_noise: ``[B, L, D]``, see `columns.layer_loss`.
        energy_weight: ``[B, L]``, see `columns.energy_loss`.
        sites: two documents in one row, and a row with padding.
    """

    parameters: Parameters
    h: Any
    u: Any
    layer_noise: Any
    energy_weight: Any
    sites: Sites

    def cast(self, dtype: str) -> Problem:
        """The same values in another dtype; call it inside ``jax.enable_x64`` for float64."""

        def one(leaf: Any) -> Any:
            floating = np.issubdtype(leaf.dtype, np.floating)
            return jnp.asarray(leaf, dtype if floating else leaf.dtype)

        return jax.tree.map(one, self)


def make_problem(energy: EnergyConfig, descent: DescentConfig, seed: int) -> Problem:
    """Random parameters, in which no term is at the start that would hide it, and random data.

    Every leaf of the fresh layer gets noise, a leaf of zeros (diagonal, V, bias table) more. All
    values are float32 numbers, so every precision sees the same ones.

    Args:
        energy: builds the energy.
        descent: how it is lowered.
        seed: of all that is random.
    """
    draw = np.random.default_rng(seed)

    def start(key: Any) -> Parameters:
        layer = CEMLayer(DIM, energy, descent, norm_eps=NORM_EPS, rngs=nnx.Rngs(key))
        return nnx.to_pure_dict(nnx.state(layer, nnx.Param))

    def away(leaf: Any) -> np.ndarray:
        value = np.asarray(leaf, np.float32)
        spread = SPREAD if value.any() else SPREAD_OF_ZEROS
        return np.asarray(value + spread * draw.standard_normal(value.shape), np.float32)

    def normal(*shape: int) -> np.ndarray:
        return draw.standard_normal(shape).astype(np.float32)

    sites = packed_sites()
    shape = sites.position.shape
    parameters = jax.tree.map(away, compiled(start, True)(jax.random.key(seed)))
    h, u, noise = (normal(*shape, DIM) for _ in range(3))
    # Of one sign, as energies are summed: weights of both would cancel them to rounding errors.
    weight = np.abs(normal(*shape)) + np.float32(0.5)
    return Problem(parameters, h, u, np.float32(NOISE) * noise, weight, sites)


def packed_sites() -> Sites:
    """Row 0 holds two documents, of 4 and 3 tokens; row 1 one of 5 and two of padding."""
    position = jnp.asarray([[0, 1, 2, 3, 0, 1, 2], [0, 1, 2, 3, 4, 0, 0]], jnp.int32)
    segment = jnp.asarray([[1, 1, 1, 1, 2, 2, 2], [1, 1, 1, 1, 1, 0, 0]], jnp.int32)
    return Sites(position, segment)
