"""A whole model as a side: its loss, or its training step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax

from cem_jax.data import Batch
from cem_jax.models import Transformer, TransformerConfig, parameter_axes
from cem_jax.models.cost import PRODUCTS_IN_TRAINING, count_forward_flops, count_parameters
from cem_jax.ops.visibility import Sites
from cem_jax.runs.benchmark.compiled import temporary_bytes
from cem_jax.runs.benchmark.shape import Shape
from cem_jax.runs.benchmark.timing import Side
from cem_jax.training import AdamWConfig, initial_state, make_optimiser, make_step
from cem_jax.training.config import OptimiserConfig
from cem_jax.training.loss import summed_loss

What = Literal["forward", "step"]

SCHEDULED = 100_000
"""Steps of the learning rate's schedule: more than are ever measured."""


def model_side(
    name: str,
    config: TransformerConfig,
    shape: Shape,
    what: What,
    *,
    optimiser: OptimiserConfig | None = None,
) -> Side:
    """A compiled model that is ready to run.

    Args:
        name: of the side.
        config: the model.
        shape: of the batch, which is random.
        what: ``"forward"``, the loss of a batch; or ``"step"``, gradient and update too.
        optimiser: of a step; AdamW by default.

    Returns:
        The side, with the figures ``flops`` (of matrix products: those of the forward pass, three
        times for a step), ``parameters`` and ``temporary_bytes``.
    """
    rule = AdamWConfig() if optimiser is None else optimiser
    compiled, run = _step(config, shape, rule) if what == "step" else _forward(config, shape)
    forward = count_forward_flops(config, batch=shape.batch, length=shape.length)
    figures = {
        "flops": forward * (PRODUCTS_IN_TRAINING if what == "step" else 1),
        "parameters": count_parameters(config).total,
        "temporary_bytes": temporary_bytes(compiled),
    }
    return Side(name, run, figures)


def random_batch(shape: Shape) -> Batch:
    """Rows of random pieces, each one document, on the device."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, shape.vocab_size, (shape.batch, shape.length + 1), np.int32)
    inputs, targets = jnp.asarray(tokens[:, :-1]), jnp.asarray(tokens[:, 1:])
    mask = jnp.ones(inputs.shape, bool)
    return Batch(inputs, targets, mask, Sites.dense(shape.batch, shape.length))


def _build(config: TransformerConfig) -> Callable[[Any], Transformer]:
    return lambda rngs: Transformer(config, rngs=rngs)


def _forward(config: TransformerConfig, shape: Shape) -> tuple[Any, Callable[[], None]]:
    graph, state = initial_state(_build(config), optax.identity(), seed=0)
    params, batch = state["params"], random_batch(shape)
    loss = jax.jit(lambda params, batch: summed_loss(graph, params, batch)[0])
    compiled = loss.lower(params, batch).compile()
    return compiled, lambda: jax.block_until_ready(compiled(params, batch))


def _step(
    config: TransformerConfig, shape: Shape, rule: OptimiserConfig
) -> tuple[Any, Callable[[], None]]:
    optimiser = make_optimiser(rule, SCHEDULED, parameter_axes(config))
    graph, state = initial_state(_build(config), optimiser, seed=0)
    step: Any = make_step(graph, optimiser)
    batch = random_batch(shape)
    compiled = step.lower(state, batch).compile()

    def run() -> None:
        nonlocal state
        # The state that is given is consumed.
        state, metrics = compiled(state, batch)
        jax.block_until_ready((state, metrics))

    return compiled, run
