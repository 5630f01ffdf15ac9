"""The FLOPs a second that training reaches, beside those of a large matrix product."""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Annotated

import tyro
from common import Common, start

from cem_jax.runs.benchmark.comparison import side_configs
from cem_jax.runs.benchmark.measuring import Job
from cem_jax.runs.benchmark.model import model_side
from cem_jax.runs.benchmark.picture import draw_ratios
from cem_jax.runs.benchmark.product import SIZE, product_side
from cem_jax.runs.benchmark.quantities import RELATIVE_RATE
from cem_jax.runs.benchmark.session import Plan
from cem_jax.runs.benchmark.shape import Shape
from cem_jax.runs.benchmark.timing import Side


@dataclasses.dataclass(frozen=True)
class Options(Common):
    """FLOPs a second of whole training steps over those of a large float32 matrix product.

    Those of a step are three times the matrix-product FLOPs of its forward pass. The product takes
    turns with the steps.
    """

    sides: tuple[str, ...] = ("llama", "cem-1-bare", "cem-1")
    """The models, by the names of cem bench."""

    size: int = SIZE
    """Rows and columns of the product."""

    shape: Annotated[Shape, tyro.conf.arg(name="")] = Shape()
    """Of the models and of a batch."""


def plan(options: Options) -> Plan:
    """One group: the product and the models."""
    configs = side_configs(options.sides, options.shape)
    product = f"product {options.size} x {options.size}"

    def sides() -> list[Side]:
        models = [
            model_side(name, config, options.shape, "step") for name, config in configs.items()
        ]
        return [product_side(product, options.size), *models]

    return Plan(
        "machine_rate",
        "FLOP/s of training steps beside those of a large matrix product",
        dataclasses.asdict(options.shape) | {"size": options.size},
        [Job("training step", product, sides)],
        {
            "": functools.partial(
                draw_ratios,
                quantity=RELATIVE_RATE,
                title="FLOP/s of a training step over those of a matrix product",
                target=0.6,
            )
        },
    )


if __name__ == "__main__":
    sys.exit(start(Options, plan, sys.argv[1:]))
