"""Whether a model can be trained at all, before any work."""

from __future__ import annotations

import os
from typing import Any

import jax
from flax import nnx
from jax.sharding import Mesh

from cem_jax.data import pack
from cem_jax.evaluation.causality import require_causal
from cem_jax.models import Transformer, TransformerConfig, parameter_axes
from cem_jax.runs.config import RunConfig
from cem_jax.sharding import Layout
from cem_jax.training import TrainingConfig
from cem_jax.training.loss import summed_loss

ALLOWED = "--xla_disable_hlo_passes=all-reduce-promotion"
"""Lets XLA for CPUs compile sums of bfloat16 over devices."""


def require_placeable(config: RunConfig, layout: Layout) -> None:
    """Refuse micro-batches or parameters that the devices of a mesh do not divide.

    It takes no work, and comes before any.

    Raises:
        ValueError: they do not; the message says which sizes would. Or XLA could not compile it.
    """
    training = config.training
    _require_compilable(config.model, layout)
    layout.require_batch(training.batch, training.length, training.accumulate)
    abstract = nnx.eval_shape(lambda: Transformer(config.model, rngs=nnx.Rngs(0)))
    shapes = nnx.to_pure_dict(nnx.state(abstract, nnx.Param))
    layout.parameters(shapes, parameter_axes(config.model))


def _require_compilable(model: TransformerConfig, layout: Layout) -> None:
    """Refuse sums of bfloat16 over several devices of a CPU: XLA would end the whole process.

    Seen with jaxlib 0.10.2 and 0.12.0.1: "Invalid binary instruction opcode copy".
    """
    mesh = layout.mesh
    cpus = isinstance(mesh, Mesh) and mesh.devices.flat[0].platform == "cpu"
    if not cpus or mesh.size == 1 or model.dtype != "bfloat16":
        return
    if ALLOWED not in os.environ.get("XLA_FLAGS", ""):
        raise ValueError(
            f"mesh: got bfloat16 on {mesh.size} devices of a CPU, which XLA cannot compile, "
            f"expected float32, or the variable XLA_FLAGS={ALLOWED}."
        )


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
