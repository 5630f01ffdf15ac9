"""The attention layer with a shared diagonal beside the one without, in time."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections.abc import Sequence
from typing import Annotated

import tyro
from common import Common, start
from layers import LayerShape, attention, layer_side

from cem_jax.ops.checks import require_count
from cem_jax.runs.benchmark.measuring import Job
from cem_jax.runs.benchmark.picture import draw_ratios
from cem_jax.runs.benchmark.quantities import TIME_OVER_FLOPS
from cem_jax.runs.benchmark.session import Plan
from cem_jax.runs.benchmark.timing import Side


@dataclasses.dataclass(frozen=True)
class Options(Common):
    """The training gradient of attention with a shared diagonal over that without.

    Both without P; beside it the ratio of their FLOPs.
    """

    lengths: tuple[int, ...] = (256, 1024)
    """L; the batch is made smaller where it is longer, so that there are as many tokens."""

    steps: tuple[int, ...] = (1, 2)
    """T."""

    backend: str = "auto"
    """Of the attention; auto chooses by the length."""

    shape: Annotated[LayerShape, tyro.conf.arg(name="")] = LayerShape()
    """Of the layer; batch and length say how many tokens there are."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for length in self.lengths:
            require_count("lengths", length)


def plan(options: Options) -> Plan:
    """One group for each length and T."""
    jobs = [
        Job(f"L = {length}, T = {steps}", "none", functools.partial(sides, options, length, steps))
        for length, steps in itertools.product(options.lengths, options.steps)
    ]
    return Plan(
        "diagonal",
        "Attention with a shared diagonal beside attention without: training gradient",
        dataclasses.asdict(options.shape) | {"backend": options.backend},
        jobs,
        {
            "": functools.partial(
                draw_ratios,
                quantity=TIME_OVER_FLOPS,
                title="Seconds per FLOP with a shared diagonal over those without",
                target=1.15,
            )
        },
    )


def sides(options: Options, length: int, steps: int) -> Sequence[Side]:
    """Without and with."""
    tokens = options.shape.batch * options.shape.length
    shape = dataclasses.replace(options.shape, batch=max(1, tokens // length), length=length)
    return [
        layer_side(
            diagonal,
            attention(
                shape, steps, diagonal=diagonal, preconditioned=False, backend=options.backend
            ),
            shape,
            "step",
        )
        for diagonal in ("none", "shared")
    ]


if __name__ == "__main__":
    sys.exit(start(Options, plan, sys.argv[1:]))
