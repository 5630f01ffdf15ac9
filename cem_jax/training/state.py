"""The state of a run: a plain nested dict of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

State = dict[str, Any]
"""``{"params": nested dict, "opt_state": optax's, "step": int32 []}``; ``step`` steps are done."""


def initial_state(
    build: Callable[[nnx.Rngs], nnx.Module],
    optimiser: optax.GradientTransformation,
    *,
    seed: int,
    sharding: Any = None,
) -> tuple[nnx.GraphDef[Any], State]:
    """A model as graph and state at step 0, allocated once, where it stays.

    Args:
        build: makes the model, whose only state is `nnx.Param`.
        optimiser: whose state belongs to it.
        seed: of the parameters.
        sharding: where the state lives, as ``out_shardings`` of `jax.jit`; by default the first
            device. Either way the arrays are committed, as restored ones are, so that a step
            compiles once for both.

    Returns:
        The graph, which with ``state["params"]`` merges to the model; the state.
    """
    if sharding is None:
        sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    graph = nnx.split(nnx.eval_shape(lambda: build(nnx.Rngs(0))), nnx.Param)[0]

    def create(key: jax.Array) -> State:
        params = nnx.to_pure_dict(nnx.split(build(nnx.Rngs(key)), nnx.Param)[1])
        # What a Python number made is weakly typed before the first step and not after it: the
        # second step would compile again.
        params = jax.tree.map(lambda x: jax.lax.convert_element_type(x, x.dtype), params)
        return {
            "params": params,
            "opt_state": optimiser.init(params),
            "step": jnp.zeros((), jnp.int32),
        }

    return graph, jax.jit(create, out_shardings=sharding)(jax.random.key(seed))


def abstract(state: State) -> State:
    """Shapes, dtypes and shardings of a state: what a checkpoint is restored into."""
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state
    )
