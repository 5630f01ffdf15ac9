"""Bytes that decoding keeps of each token."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from cem_jax.energies.base import Context
from cem_jax.models.config import SublayerConfig
from cem_jax.models.cost.abstract import build_abstract
from cem_jax.models.cost.formulas import formula
from cem_jax.models.layer import CEMLayer
from cem_jax.ops.visibility import Sites


def cache_bytes_per_token(config: SublayerConfig, dim: int, *, dtype: str) -> int | None:
    """What one sublayer caches of a token, in the dtype of the products.

    Llama's attention: 2 G K numbers, keys and values. The interaction energy: its rotated keys are
    its values, G K; with a diagonal the context beside them, G K + D; with a context score its
    keys too, G K'. Element-wise energies and MLPs: none. Any other energy: what its context grows
    by with each token, as its own ``condition`` says. Any other sublayer: None, unknown.
    """
    known = formula(config, dim)
    if known is not None:
        return known.cache * jnp.dtype(dtype).itemsize
    layer = build_abstract(config, dim, dtype)
    if not isinstance(layer, CEMLayer):
        return None
    return _context_bytes(layer, 2) - _context_bytes(layer, 1)


def _context_bytes(layer: CEMLayer, length: int) -> int:
    graph, parameters = nnx.split(layer.energy)

    def condition(parameters: Any, c: Array) -> Context:
        return nnx.merge(graph, parameters).condition(c, Sites.dense(1, length))

    c = jax.ShapeDtypeStruct((1, length, layer.dim), layer.dtype)
    context = jax.eval_shape(condition, parameters, c)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(context))
