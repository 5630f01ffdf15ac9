"""Whether a model can be trained at all, before any work."""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx

from cem_jax.data import pack
from cem_jax.evaluation.causality import require_causal
from cem_jax.models import Transformer, TransformerConfig, parameter_axes
from cem_jax.runs.config import RunConfig
from cem_jax.sharding import Layout
from cem_jax.training import TrainingConfig
from cem_jax.training.loss import summed_loss


def require_placeable(config: RunConfig, layout: Layout) -> None:
    """Refuse micro-batches or parameters that the devices of a mesh do not divide.

    It takes no work, and comes before any.

    Raises:
        ValueError: they do not; the message says which sizes would.
    """
    training = config.training
    layout.require_batch(training.batch, training.length, training.accumulate)
    abstract = nnx.eval_shape(lambda: Transformer(config.model, rngs=nnx.Rngs(0)))
    shapes = nnx.to_pure_dict(nnx.state(abstract, nnx.Param))
    layout.parameters(shapes, parameter_axes(config.model))


def require_trainable(model: TransformerConfig, training: TrainingConfig) -> None:
    """Refuse an energy that cannot work, or that sees the future, before any work.

    The training loss is traced, and the attention is probed with fresh parameters.
    """
    graph, abstract = nnx.split(nnx.eval_shape(lambda: Transformer(model, rngs=nnx.Rngs(0))))
    batch = pack([[0] * (training.length + 1)], training.length).batch([0])
    gradient = jax.grad(lambda params, batch: summed_loss(graph, params, batch)[0])
    jax.eval_shape(gradient, nnx.to_pure_dict(abstract), batch)
    common: dict[str, Any] = {"norm_eps": model.norm_eps, "dtype": model.dtype}
    layer = model.attention.build(model.dim, rngs=nnx.Rngs(0), **common)
    require_causal("attention", layer, model.dim)
