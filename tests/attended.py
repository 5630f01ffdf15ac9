"""Attention probabilities of an energy as it is: its derivative by a bias at each distance."""

from __future__ import annotations

from typing import Any

import cases
import jax
import numpy as np
from flax import nnx

from cem_jax import Sites


def probabilities(layer: Any, h: jax.Array) -> np.ndarray:
    """``[B, H, L, L]`` of a causal layer on the interaction energy with ``relative_bias >= L``.

    The bias enters the logits alone, so d eps_i / d b_h[i - j] = -tau p_hij; (2) and (5b).
    """
    graph, params = cases.split(layer)
    (batch, length), tau = h.shape[:2], layer.energy.temperature

    def energies(table: jax.Array) -> jax.Array:
        energy = params["energy"] | {"bias": {"table": table}}
        model = nnx.merge(graph, params | {"energy": energy})
        u = model.norm(h)
        return model.energy(u, model.energy.condition(u, Sites.dense(batch, length)))

    slope = jax.jit(jax.jacfwd(energies))(params["energy"]["bias"]["table"])
    row, column = np.tril_indices(length)
    found = np.zeros((batch, slope.shape[2], length, length), np.float32)
    found[:, :, row, column] = np.moveaxis(-slope[:, row, :, row - column] / tau, 0, -1)
    return found
