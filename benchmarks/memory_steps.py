"""Temporary memory of a training step against the number of inner steps; nothing is run."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import tyro
from common import Common, start
from flax import nnx

from cem_jax import MHAConfig, SwiGLUConfig, Transformer, TransformerConfig
from cem_jax.ops.checks import require_count
from cem_jax.runs.benchmark.compiled import temporary_bytes
from cem_jax.runs.benchmark.measuring import Job
from cem_jax.runs.benchmark.picture import Line, draw_lines
from cem_jax.runs.benchmark.record import Record
from cem_jax.runs.benchmark.session import Plan
from cem_jax.runs.benchmark.shape import Shape
from cem_jax.runs.benchmark.sides import model_config
from cem_jax.runs.benchmark.timing import Side

SMALL = Shape(vocab_size=64, layers=2)
"""Few pieces: the logits of many would hide what the layers need."""


@dataclasses.dataclass(frozen=True)
class Options(Common):
    """Temporary memory of a model's gradient with rematerialised inner steps against T.

    In float32 arrays [B, L, D]; of CEM attention with SwiGLU, and of CEM MLPs with multi-head
    attention.
    """

    steps: tuple[int, ...] = (3, 4, 5, 6)
    """T. What a step recomputes is held once, and the loop is one from 3 on."""

    shape: Annotated[Shape, tyro.conf.arg(name="")] = SMALL
    """Of the model and of a batch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.steps) < 2 or len(set(self.steps)) < len(self.steps):
            raise ValueError(
                f"steps: got {self.steps}, expected two different numbers of steps at least."
            )
        for steps in self.steps:
            require_count("steps", steps)


def plan(options: Options) -> Plan:
    """One group for each kind of layer and variant."""
    jobs = [
        Job(
            f"{kind}, {variant}",
            f"T = {options.steps[0]}",
            functools.partial(sides, options, kind, variant),
        )
        for kind, variant in itertools.product(("attention", "mlp"), ("bare", "default"))
    ]
    return Plan(
        "memory_steps",
        "Temporary memory of a training gradient with remat against T",
        dataclasses.asdict(options.shape),
        jobs,
        {"": draw},
    )


def sides(options: Options, kind: str, variant: str) -> Sequence[Side]:
    """A number of inner steps each."""
    shape, result = options.shape, []
    one = 4 * shape.batch * shape.length * shape.dim
    for steps in options.steps:
        used = gradient_bytes(config(shape, kind, variant, steps), shape)
        figures = {"steps": steps, "temporary_bytes": used, "arrays": used / one}
        result.append(Side(f"T = {steps}", None, figures))
    return result


def config(shape: Shape, kind: str, variant: str, steps: int) -> TransformerConfig:
    """A model whose sublayers of one kind are CEM layers, all rematerialised."""
    whole = model_config(f"cem-{steps}" + ("-bare" if variant == "bare" else ""), shape)
    layer: Any = getattr(whole, kind)
    descent = dataclasses.replace(layer.descent, remat="full", unroll=1)
    sublayers = {"attention": MHAConfig(shape.heads), "mlp": SwiGLUConfig(shape.features)}
    sublayers |= {kind: dataclasses.replace(layer, descent=descent)}
    return dataclasses.replace(whole, remat="full", **sublayers)


def gradient_bytes(config: TransformerConfig, shape: Shape) -> int:
    """Temporary bytes of the gradient of a loss in the parameters."""
    model = nnx.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0)))
    graph, state = nnx.split(model)
    tokens = jax.ShapeDtypeStruct((shape.batch, shape.length), jnp.int32)

    def loss(state: Any, tokens: jax.Array) -> jax.Array:
        return jnp.sum(jnp.square(nnx.merge(graph, state)(tokens)))

    return temporary_bytes(jax.jit(jax.grad(loss)).lower(state, tokens).compile())


def draw(record: Record, path: Path) -> None:
    """A line for each group."""
    lines = [
        Line(
            group.name,
            [side.figures["steps"] for side in group.sides],
            [side.figures["arrays"] for side in group.sides],
        )
        for group in record.groups
    ]
    draw_lines(
        lines,
        path,
        x="inner steps T",
        y="temporary memory (float32 arrays [B, L, D])",
        title="Temporary memory of a training gradient with remat",
    )


if __name__ == "__main__":
    sys.exit(start(Options, plan, sys.argv[1:]))
