"""Models with given parameters, made without compiling a constructor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from flax import nnx

from cem_jax import Transformer, TransformerConfig
from cem_jax.models.weights import abstract_params, flatten, unflatten


def noisy(config: TransformerConfig) -> dict[str, Any]:
    """Parameters of a model without any special value, on the host."""
    draw = np.random.default_rng(0)
    flat = {
        name: draw.normal(float(name.endswith("gain")), 0.4, leaf.shape).astype(leaf.dtype)
        for name, leaf in flatten(abstract_params(config)).items()
    }
    return unflatten(flat)


def filled(build: Callable[[nnx.Rngs], Any], params: dict[str, Any]) -> Any:
    """What ``build(rngs)`` makes, with these parameters."""
    graph, _ = nnx.split(nnx.eval_shape(lambda: build(nnx.Rngs(0))))
    return nnx.merge(graph, jax.device_put(params))


def transformer(config: TransformerConfig, params: dict[str, Any]) -> Transformer:
    """A model with these parameters."""
    return filled(lambda rngs: Transformer(config, rngs=rngs), params)
