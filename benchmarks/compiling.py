"""Compile time against depth, and whether a second call compiles anything."""

from __future__ import annotations

import dataclasses
import functools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import tyro
from common import Common, start

from cem_jax import Transformer, TransformerConfig
from cem_jax.ops.checks import require_count
from cem_jax.runs.benchmark.comparison import side_configs
from cem_jax.runs.benchmark.compiled import compilations
from cem_jax.runs.benchmark.measuring import Job
from cem_jax.runs.benchmark.model import SCHEDULED, random_batch
from cem_jax.runs.benchmark.picture import draw_ratios
from cem_jax.runs.benchmark.quantities import TIME_RATIO
from cem_jax.runs.benchmark.session import Plan
from cem_jax.runs.benchmark.shape import Shape
from cem_jax.runs.benchmark.timing import Side
from cem_jax.training import (
    AdamWConfig,
    Checkpoints,
    Fresh,
    fresh_state,
    make_optimiser,
    make_step,
)

CALLS = 3
"""Of a compiled step, in each of which nothing may be compiled."""


@dataclasses.dataclass(frozen=True)
class Options(Common):
    """Compile time of a training step at two depths, and what further calls compile.

    The time is from the start of tracing to the end of compiling; further calls are made with a
    fresh and with a restored state.
    """

    rounds: int = 5
    """How often every depth is compiled."""

    depths: tuple[int, int] = (4, 32)
    """Numbers of layers, the baseline first."""

    sides: tuple[str, ...] = ("llama", "cem-2")
    """The models, by the names of cem bench."""

    shape: Annotated[Shape, tyro.conf.arg(name="")] = Shape()
    """Of the models and of a batch; --layers is for the further calls."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for depth in self.depths:
            require_count("depths", depth)


def plan(options: Options) -> Plan:
    """Compile times of each model, then further calls of each."""
    configs = side_configs(options.sides, options.shape)
    jobs = [
        Job(
            f"compile time, {name}",
            depth_name(options.depths[0]),
            functools.partial(depths, config, options),
        )
        for name, config in configs.items()
    ]
    jobs += [
        Job(f"further calls, {name}", "fresh", functools.partial(further, config, options.shape))
        for name, config in configs.items()
    ]
    return Plan(
        "compiling",
        "Compile time against depth, and compilations of further calls",
        dataclasses.asdict(options.shape) | {"depths": options.depths},
        jobs,
        {
            "": functools.partial(
                draw_ratios,
                quantity=TIME_RATIO,
                title=f"Compile time at {options.depths[1]} layers over {options.depths[0]}",
                target=1.2,
            )
        },
    )


def depth_name(layers: int) -> str:
    """Of a side."""
    return f"{layers} layers"


def depths(config: TransformerConfig, options: Options) -> Sequence[Side]:
    """A side for each depth, which traces and compiles anew whenever it is run."""
    batch = random_batch(options.shape)

    def compile_anew(layers: int) -> None:
        step, fresh = training(dataclasses.replace(config, layers=layers))
        step.lower(fresh.abstract, batch).compile()

    return [
        Side(depth_name(layers), functools.partial(compile_anew, layers))
        for layers in options.depths
    ]


def further(config: TransformerConfig, shape: Shape) -> Sequence[Side]:
    """Compilations of the calls after the first: of the state it gave, and of that restored."""
    step, fresh = training(config)
    batch = random_batch(shape)
    state, _ = jax.block_until_ready(step(fresh.create(), batch))
    with tempfile.TemporaryDirectory() as folder, Checkpoints(Path(folder) / "states") as saved:
        saved.save(state)
        saved.wait()
        restored = saved.restore(fresh.abstract)[0]
    found = {"fresh": called(step, state, batch), "restored": called(step, restored, batch)}
    return [Side(name, None, {"compilations": count}) for name, count in found.items()]


def called(step: Any, state: Any, batch: Any) -> int:
    """How many programs a few calls of a step compile."""
    with compilations() as count:
        for _ in range(CALLS):
            state, _ = jax.block_until_ready(step(state, batch))
    return count.value


def training(config: TransformerConfig) -> tuple[Any, Fresh]:
    """A step and its state, all new."""
    optimiser = make_optimiser(AdamWConfig(), SCHEDULED)
    fresh = fresh_state(lambda rngs: Transformer(config, rngs=rngs), optimiser, seed=0)
    return make_step(fresh.graph, optimiser), fresh


if __name__ == "__main__":
    sys.exit(start(Options, plan, sys.argv[1:]))
