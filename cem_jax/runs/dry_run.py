"""A dry run: what a training would take on a mesh, compiled and not run."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from cem_jax.data import Batch
from cem_jax.models import Transformer, parameter_axes
from cem_jax.models.cost import count_parameters, count_training_flops
from cem_jax.ops.visibility import Sites
from cem_jax.runs.config import RunConfig
from cem_jax.runs.trainable import require_placeable
from cem_jax.sharding import Layout
from cem_jax.sharding.collectives import Traffic, collectives
from cem_jax.training import fresh_state, make_optimiser, make_step
from cem_jax.training.state import State


@dataclasses.dataclass(frozen=True)
class DryRun:
    """What a training step takes.

    Attributes:
        devices: of the mesh.
        parameters: of the model, all devices together.
        state_bytes: of parameters, moments and step on one device.
        argument_bytes: of state and batch on one device.
        temporary_bytes: beside them on one device, as compiled.
        flops: of a step, all devices together: matrix products, three times those of the forward
            pass.
        traffic: what is sent between devices in a step, by kind of collective.
    """

    devices: int
    parameters: int
    state_bytes: int
    argument_bytes: int
    temporary_bytes: int
    flops: int
    traffic: dict[str, Traffic]


def dry_run(config: RunConfig, layout: Layout) -> DryRun:
    """Compile a training step for the mesh; nothing is allocated but by the compiler.

    Args:
        config: the run; its text is not looked at.
        layout: where it would live.

    Raises:
        ValueError: sizes that the mesh does not divide.
    """
    require_placeable(config, layout)
    training, axes = config.training, parameter_axes(config.model)
    optimiser = make_optimiser(training.optimiser, training.steps, axes)
    fresh = fresh_state(
        lambda rngs: Transformer(config.model, rngs=rngs),
        optimiser,
        seed=training.seed,
        sharding=functools.partial(layout.state, axes=axes),
    )
    step: Any = make_step(
        fresh.graph,
        optimiser,
        layout.scope,
        accumulate=training.accumulate,
        non_finite=training.non_finite,
    )
    batch = abstract_batch(training.batch, training.length, layout)
    compiled = step.lower(fresh.abstract, batch).compile()
    memory = compiled.memory_analysis()
    return DryRun(
        devices=layout.mesh.size,
        parameters=count_parameters(config.model).total,
        state_bytes=bytes_on_a_device(fresh.abstract),
        argument_bytes=int(memory.argument_size_in_bytes),
        temporary_bytes=int(memory.temp_size_in_bytes),
        flops=count_training_flops(config.model, batch=training.batch, length=training.length),
        traffic=collectives(compiled.as_text()),
    )


def abstract_batch(batch: int, length: int, layout: Layout) -> Batch:
    """Shapes, dtypes and shardings of a batch that fits the layout."""

    def array(dtype: Any) -> Any:
        return jax.ShapeDtypeStruct((batch, length), dtype, sharding=layout.batch)

    whole, truth = jnp.int32, jnp.bool_
    return Batch(array(whole), array(whole), array(truth), Sites(array(whole), array(whole)))


def bytes_on_a_device(state: State) -> int:
    """Of abstract arrays that know where they live."""

    def size(leaf: Any) -> int:
        shape = leaf.sharding.shard_shape(leaf.shape)
        return int(jnp.dtype(leaf.dtype).itemsize * math.prod(shape))

    return sum(size(leaf) for leaf in jax.tree.leaves(state))


def told(found: DryRun, mesh: str) -> str:
    """The dry run in lines."""
    lines = [
        f"{found.devices} device{'s' * (found.devices > 1)} ({mesh}), {found.parameters:,} "
        f"parameters, {found.flops / 1e9:,.2f} GFLOP a step",
        f"on each device: {_mega(found.argument_bytes)} of arguments ({_mega(found.state_bytes)} "
        f"of state) and {_mega(found.temporary_bytes)} of temporary memory",
    ]
    for kind, traffic in sorted(found.traffic.items()):
        lines.append(f"{kind}: {traffic.count} a step, {_mega(traffic.bytes)} on each device")
    if not found.traffic:
        lines.append("nothing is sent between devices")
    return "\n".join(lines)


def _mega(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
