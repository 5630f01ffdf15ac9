"""A step size that depends on the context, as an exact energy.

    cem train --model llama --attention experiments/language_model/gated.py:Gated --preset micro

From the root of the clone.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from cem_jax import Energy, InteractionConfig, accumulation_dtype, parameter

ATTENTION = InteractionConfig(heads=4, diagonal="shared")
"""What is scaled: the paper's attention at the size of these experiments."""


class Gated(Energy):
    """eps_i = 2 sigmoid(g . c_i) eps(u_i | c_{1:i}): position i says how far it goes.

    The factor is a function of the context alone, so that energy and gradient stay exact: a step
    size of each position. It is 1 at the start.
    """

    def __init__(self, dim, *, rngs):
        self.attention = ATTENTION.build(dim, rngs=rngs)
        self.gate = parameter(jnp.zeros((dim,)), "D")

    def condition(self, c, sites):
        wide = c.astype(accumulation_dtype(c))
        return self.attention.condition(c, sites), 2 * jax.nn.sigmoid(wide @ self.gate[...])

    def __call__(self, u, context):
        inner, factor = context
        return factor * self.attention(u, inner)
