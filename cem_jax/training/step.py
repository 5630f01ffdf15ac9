"""One training step: a pure function, compiled once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array

from cem_jax.data.packing import Batch
from cem_jax.training.loss import summed_loss
from cem_jax.training.state import State

Metrics = dict[str, Array]
"""Scalars of a step on the device: ``loss`` in nats per token, ``tokens``, ``gradient_norm``."""

Step = Callable[[State, Batch], tuple[State, Metrics]]


def make_step(
    graph: nnx.GraphDef[Any],
    optimiser: optax.GradientTransformation,
    scope: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> Step:
    """The jitted map (state, batch) -> (state, metrics). The state given to it is consumed.

    The loss is summed nats / number of predicted tokens; the metrics are those of the parameters
    before the update.

    Args:
        graph: of the model.
        optimiser: whose state is in the state.
        scope: in which it is traced, such as `sharding.Layout.scope`.
    """

    def step(state: State, batch: Batch) -> tuple[State, Metrics]:
        with scope():
            gradients, metrics = gradients_of(graph, state["params"], batch)
        updates, opt_state = optimiser.update(gradients, state["opt_state"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "opt_state": opt_state, "step": state["step"] + 1}, metrics

    return jax.jit(step, donate_argnums=0)


def gradients_of(
    graph: nnx.GraphDef[Any], params: dict[str, Any], batch: Batch
) -> tuple[dict[str, Any], Metrics]:
    """Gradients of the mean loss, as that of the sum divided once by the number of tokens."""

    def nats(params: dict[str, Any]) -> tuple[Array, Array]:
        return summed_loss(graph, params, batch)

    (total, tokens), gradients = jax.value_and_grad(nats, has_aux=True)(params)
    count = jnp.maximum(tokens, 1)
    gradients = jax.tree.map(lambda gradient: gradient / count, gradients)
    norm = optax.tree.norm(gradients)
    return gradients, {"loss": total / count, "tokens": tokens, "gradient_norm": norm}
