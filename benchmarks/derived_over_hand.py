"""The layer that autograd derives beside the same layer written by hand, in time and memory."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import tyro
from common import Common, start
from layers import LayerShape, attention, layer_side, mlp

from cem_jax.evaluation.hand_written import HandWrittenConfig
from cem_jax.ops.checks import require_one_of
from cem_jax.runs.benchmark.measuring import Job
from cem_jax.runs.benchmark.picture import draw_ratios
from cem_jax.runs.benchmark.quantities import BYTES_RATIO, TIME_RATIO
from cem_jax.runs.benchmark.session import Plan
from cem_jax.runs.benchmark.timing import Side

BASELINE = "by hand"
CHOICES = {
    "layers": ("attention", "mlp"),
    "variants": ("bare", "default"),
    "what": ("forward", "step"),
}


@dataclasses.dataclass(frozen=True)
class Options(Common):
    """Layers derived by autograd over the same layers written by hand, in time and memory.

    Forward, and the training gradient in parameters and input.
    """

    layers: tuple[str, ...] = CHOICES["layers"]
    """Of attention and mlp."""

    steps: tuple[int, ...] = (1, 2, 4)
    """T."""

    variants: tuple[str, ...] = CHOICES["variants"]
    """bare: no diagonal, no P. default: shared diagonal, P of rank 16."""

    what: tuple[str, ...] = CHOICES["what"]
    """forward, and step: the training gradient."""

    backend: str = "reference"
    """Of the derived attention; the hand-written one has whole logits, as the reference has."""

    shape: Annotated[LayerShape, tyro.conf.arg(name="")] = LayerShape()
    """Of the layer and its input."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for field, known in CHOICES.items():
            for name in getattr(self, field):
                require_one_of(field, name, known)


def plan(options: Options) -> Plan:
    """One group for each combination."""
    jobs = [
        Job(
            f"{layer}, T = {steps}, {variant}, {what}",
            BASELINE,
            functools.partial(sides, options, layer, steps, variant, what),
        )
        for layer, variant, steps, what in itertools.product(
            options.layers, options.variants, options.steps, options.what
        )
    ]
    return Plan(
        "derived_over_hand",
        "Layers derived by autograd beside the same layers written by hand",
        dataclasses.asdict(options.shape) | {"backend": options.backend},
        jobs,
        {
            "": functools.partial(
                draw_ratios,
                quantity=TIME_RATIO,
                title="Time of the derived layer over the hand-written one",
                target=1.05,
            ),
            "-bytes": functools.partial(
                draw_ratios,
                quantity=BYTES_RATIO,
                title="Temporary memory of the derived layer over the hand-written one",
                target=1.02,
            ),
        },
    )


def sides(options: Options, layer: str, steps: int, variant: str, what: Any) -> Sequence[Side]:
    """The derived layer and the hand-written one, of one config."""
    shape, whole = options.shape, variant == "default"
    if layer == "mlp":
        config = mlp(shape, steps, preconditioned=whole)
    else:
        config = attention(
            shape,
            steps,
            diagonal="shared" if whole else "none",
            preconditioned=whole,
            backend=options.backend,
        )
    return [
        layer_side(BASELINE, HandWrittenConfig(config), shape, what),
        layer_side("derived", config, shape, what),
    ]


if __name__ == "__main__":
    sys.exit(start(Options, plan, sys.argv[1:]))
