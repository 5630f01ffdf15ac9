"""The state of a run: a plain nested dict of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx

State = dict[str, Any]
"""``{"params": nested dict, "opt_state": optax's, "step": int32 []}``; ``step`` steps are done."""


class Fresh(NamedTuple):
    """A state that is not allocated yet.

    Attributes:
        graph: with ``state["params"]`` it merges to the model.
        abstract: shapes, dtypes and shardings: what a checkpoint is restored into.
        create: allocates the state at step 0, once, where it stays.
    """

    graph: nnx.GraphDef[Any]
    abstract: State
    create: Callable[[], State]


def fresh_state(
    build: Callable[[nnx.Rngs], nnx.Module],
    optimiser: optax.GradientTransformation,
    *,
    seed: int,
    sharding: Any = None,
) -> Fresh:
    """A model and its state, described; a run that resumes never allocates it twice.

    Args:
        build: makes the model, whose only state is `nnx.Param`.
        optimiser: whose state belongs to it.
        seed: of the parameters.
        sharding: where the state lives: one for all its arrays, or a function from their shapes to
            one for each (`sharding.Layout.state`); by default the first device. Either way the
            arrays are committed, as restored ones are, so that a step compiles once for both.
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

    key = jax.random.key(seed)
    shapes = jax.eval_shape(create, key)
    places = sharding(shapes) if callable(sharding) else jax.tree.map(lambda x: sharding, shapes)
    placed = jax.tree.map(
        lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), shapes, places
    )
    # Born where it lives: jit(init) on a mesh would replicate what is sharded.
    return Fresh(graph, placed, lambda: jax.jit(create, out_shardings=places)(key))


def initial_state(
    build: Callable[[nnx.Rngs], nnx.Module],
    optimiser: optax.GradientTransformation,
    *,
    seed: int,
    sharding: Any = None,
) -> tuple[nnx.GraphDef[Any], State]:
    """Graph and state at step 0; the arguments are those of `fresh_state`."""
    fresh = fresh_state(build, optimiser, seed=seed, sharding=sharding)
    return fresh.graph, fresh.create()


def abstract(state: State) -> State:
    """Shapes, dtypes and shardings of a state that exists."""
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state
    )
