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
from cem_jax.training.accumulation import summed
from cem_jax.training.config import NonFinite
from cem_jax.training.loss import summed_loss
from cem_jax.training.state import State

Metrics = dict[str, Array]
"""Scalars of a step on the device: ``loss`` in nats per token, ``tokens``, ``gradient_norm``, and
``skipped`` where a step may be."""

Step = Callable[[State, Batch], tuple[State, Metrics]]


def make_step(
    graph: nnx.GraphDef[Any],
    optimiser: optax.GradientTransformation,
    scope: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    *,
    accumulate: int = 1,
    non_finite: NonFinite = "stop",
) -> Step:
    """The jitted map (state, batch) -> (state, metrics). The state given to it is consumed.

    The loss is summed nats / number of predicted tokens; the metrics are those of the parameters
    before the update.

    Args:
        graph: of the model.
        optimiser: whose state is in the state.
        scope: in which it is traced, such as `sharding.Layout.scope`.
        accumulate: how many micro-batches the rows are cut into; see `TrainingConfig`.
        non_finite: with ``"skip"`` a loss or a gradient that is not finite leaves parameters and
            optimiser as they were. ``step`` goes on, and with it the data; the optimiser's own
            count does not, so that the schedule lags by a step for each that was skipped.
    """

    def step(state: State, batch: Batch) -> tuple[State, Metrics]:
        with scope():
            gradients, metrics = gradients_of(graph, state["params"], batch, accumulate)
        updates, opt_state = optimiser.update(gradients, state["opt_state"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        after = {"params": params, "opt_state": opt_state, "step": state["step"] + 1}
        if non_finite == "skip":
            finite = jnp.isfinite(metrics["loss"]) & jnp.isfinite(metrics["gradient_norm"])
            metrics["skipped"] = ~finite
            for name in ("params", "opt_state"):
                after[name] = _chosen(finite, after[name], state[name])
        return after, metrics

    return jax.jit(step, donate_argnums=0)


def _chosen(first: Array, one: Any, other: Any) -> Any:
    """One of two trees, each leaf whole: what is not finite in the other does not matter."""
    return jax.tree.map(lambda a, b: jnp.where(first, a, b), one, other)


def gradients_of(
    graph: nnx.GraphDef[Any], params: dict[str, Any], batch: Batch, accumulate: int = 1
) -> tuple[dict[str, Any], Metrics]:
    """Gradients of the mean loss: (sum_m d nats_m / d params) / sum_m tokens_m.

    Args:
        graph: of the model.
        params: its parameters.
        batch: B rows.
        accumulate: into how many micro-batches m they are cut, a divisor of B.
    """

    def nats(params: dict[str, Any], rows: Batch) -> tuple[Array, Array]:
        return summed_loss(graph, params, rows)

    def sums(rows: Batch) -> Any:
        return jax.value_and_grad(nats, has_aux=True)(params, rows)

    (total, tokens), gradients = summed(sums, batch, accumulate)
    count = jnp.maximum(tokens, 1)
    gradients = jax.tree.map(lambda gradient: gradient / count, gradients)
    norm = optax.tree.norm(gradients)
    return gradients, {"loss": total / count, "tokens": tokens, "gradient_norm": norm}
