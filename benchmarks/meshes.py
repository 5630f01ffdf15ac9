"""What a training step takes on each device of a mesh, and what is sent; compiled, never run."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import jax
from common import Common, start

from cem_jax.cli.train_options import PRESETS as MODELS
from cem_jax.models import Family, default_recipe
from cem_jax.ops.checks import require_count
from cem_jax.runs import RunConfig
from cem_jax.runs.benchmark.measuring import Job
from cem_jax.runs.benchmark.picture import draw_ratios
from cem_jax.runs.benchmark.quantities import Quantity, figure_ratio
from cem_jax.runs.benchmark.session import Plan
from cem_jax.runs.benchmark.timing import Side
from cem_jax.runs.dry_run import dry_run
from cem_jax.sharding import Layout, MeshShape
from cem_jax.sharding.topology import topology_devices
from cem_jax.training import AdamWConfig, TrainingConfig

MULTIPLE = 128
"""Vocabularies are rounded up to it."""

SENT = Quantity("bytes sent / baseline", figure_ratio("sent_bytes"))


@dataclasses.dataclass(frozen=True)
class Options(Common):
    """Bytes on each device and bytes sent by a training step, as the compiler has them.

    With matrix products kept and the rest recomputed, by AdamW. Without --topology for simulated
    devices of the CPU.
    """

    presets: tuple[Literal["micro", "tiny", "small", "paper"], ...] = ("tiny", "small", "paper")
    """Sizes of models."""

    families: tuple[Family, ...] = ("llama", "cem")
    """The models, the baseline first; T = 2 where there are inner steps."""

    meshes: tuple[str, ...] = ("data", "fsdp", "fsdp+tensor", "context")
    """Over which the devices are spread."""

    devices: int = 8
    """How many are simulated."""

    topology: str | None = None
    """A TPU slice, such as v5e:2x4; needs the extra tpu, and no TPU."""

    batch: int = 32
    """B, rows of a step, all devices together."""

    length: int = 1024
    """L."""

    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of what is computed; XLA does not compile sums of bfloat16 over several devices of a CPU."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("devices", "batch", "length"):
            require_count(name, getattr(self, name))


def plan(options: Options) -> Plan:
    """A group for each preset and mesh."""
    if options.topology is None:
        jax.config.update("jax_num_cpu_devices", options.devices)
        devices: Sequence[Any] = jax.devices()
    else:
        devices = topology_devices(options.topology)
    jobs = [
        Job(
            f"{preset}, {MeshShape.parse(mesh, len(devices))}",
            options.families[0],
            functools.partial(sides, options, preset, mesh, devices),
        )
        for preset in options.presets
        for mesh in options.meshes
    ]
    where = options.topology or f"{len(devices)} simulated devices"
    settings = {
        "devices": where,
        "batch": options.batch,
        "length": options.length,
        "dtype": options.dtype,
        "inner_steps": 2,
    }
    title = f"A training step on {where}, as compiled"
    return Plan("meshes", title, settings, jobs, {"": draw})


def sides(options: Options, preset: str, mesh: str, devices: Sequence[Any]) -> Sequence[Side]:
    """The step of each family."""
    layout = Layout(MeshShape.parse(mesh, len(devices)).build(devices))
    return [
        Side(family, None, figures(options, preset, family, layout)) for family in options.families
    ]


def figures(options: Options, preset: str, family: Family, layout: Layout) -> dict[str, int]:
    """What the compiler says."""
    recipe = dataclasses.replace(default_recipe(family), steps=2, remat="products")
    model = MODELS[preset](family, recipe)
    training = TrainingConfig(batch=options.batch, length=options.length, optimiser=AdamWConfig())
    # Pieces that no text has, so that the vocabulary divides.
    vocab_size = -(-model.vocab_size // MULTIPLE) * MULTIPLE
    model = dataclasses.replace(model, dtype=options.dtype, vocab_size=vocab_size)
    config = RunConfig(family, model, training)
    found = dry_run(config, layout)
    return {
        "parameters": found.parameters,
        "flops": found.flops,
        "argument_bytes": found.argument_bytes,
        "temporary_bytes": found.temporary_bytes,
        "sent_bytes": sum(traffic.bytes for traffic in found.traffic.values()),
    }


def draw(record: Any, path: Path) -> None:
    """What is sent, over the baseline."""
    draw_ratios(record, path, SENT, "What a training step sends, over the Llama's")


if __name__ == "__main__":
    sys.exit(start(Options, plan, sys.argv[1:]))
