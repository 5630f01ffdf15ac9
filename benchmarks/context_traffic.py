"""What attention gathers where the positions are spread over devices; compiled, never run."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from common import Common, start
from flax import nnx

from cem_jax import CEMConfig, DescentConfig, InteractionConfig, MHAConfig
from cem_jax.ops.checks import require_count
from cem_jax.runs.benchmark.measuring import Job
from cem_jax.runs.benchmark.picture import draw_ratios
from cem_jax.runs.benchmark.quantities import Quantity, figure_ratio
from cem_jax.runs.benchmark.session import Plan
from cem_jax.runs.benchmark.timing import Side
from cem_jax.sharding import Layout, MeshShape
from cem_jax.sharding.collectives import collectives

SENT = Quantity("bytes sent / baseline", figure_ratio("sent_bytes"))


@dataclasses.dataclass(frozen=True)
class Options(Common):
    """Bytes that the forward pass of one attention layer sends, positions spread over devices.

    MHA gathers keys and values; the CEM's are one thing.
    """

    devices: int = 8
    """How many are simulated; all are given to context."""

    batch: int = 8
    """B."""

    length: int = 1024
    """L, of which each device has a part."""

    dim: int = 256
    """D, of float32."""

    heads: int = 4
    """H; a head has D / H."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("devices", "batch", "length", "dim", "heads"):
            require_count(name, getattr(self, name))


def plan(options: Options) -> Plan:
    """One group, multi-head attention first."""
    jax.config.update("jax_num_cpu_devices", options.devices)
    job = Job("forward pass of one layer", "mha", functools.partial(sides, options))
    settings = {
        name: getattr(options, name) for name in ("devices", "batch", "length", "dim", "heads")
    }
    title = f"What attention sends where positions are spread over {options.devices} devices"
    return Plan("context_traffic", title, settings, [job], {"": draw})


def sides(options: Options) -> Sequence[Side]:
    """Attention of each kind."""
    energies = {"no diagonal": "none", "shared diagonal": "shared"}
    layers: dict[str, Any] = {"mha": MHAConfig(options.heads)}
    layers |= {
        f"cem, {words}, T = {steps}": CEMConfig(
            InteractionConfig(options.heads, diagonal=kind),  # type: ignore[arg-type]
            DescentConfig(steps=steps),
        )
        for words, kind in energies.items()
        for steps in (1, 2)
    }
    return [Side(name, None, sent(options, layer)) for name, layer in layers.items()]


def sent(options: Options, config: Any) -> dict[str, float]:
    """Bytes, and how many times an array [B, L, D] that is."""
    layout = Layout.of(MeshShape(context=options.devices))
    layer = config.build(options.dim, norm_eps=1e-5, dtype="float32", rngs=nnx.Rngs(0))
    shape = (options.batch, options.length, options.dim)
    x = jax.ShapeDtypeStruct(shape, jnp.float32, sharding=layout.batch)

    def run(layer: Any, x: jax.Array) -> jax.Array:
        with layout.scope():
            result: jax.Array = layer(x)
        return result

    # An argument: a diagonal that is known to be zero would be left out.
    found = collectives(jax.jit(run).lower(layer, x).compile().as_text())
    total = sum(traffic.bytes for traffic in found.values())
    return {"sent_bytes": total, "sent_arrays": total / (x.size * x.dtype.itemsize)}


def draw(record: Any, path: Path) -> None:
    """What is sent, over multi-head attention's."""
    draw_ratios(record, path, SENT, "What attention sends, over multi-head attention's")


if __name__ == "__main__":
    sys.exit(start(Options, plan, sys.argv[1:]))
