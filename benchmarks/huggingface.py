"""Our Llama beside Hugging Face's `LlamaForCausalLM` in PyTorch: whole training steps."""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Annotated

import tyro
from common import Common, start
from peer import PACKAGES, AdamW, libraries, peer_side

from cem_jax.runs.benchmark.measuring import Job
from cem_jax.runs.benchmark.model import model_side
from cem_jax.runs.benchmark.picture import draw_ratios
from cem_jax.runs.benchmark.quantities import TIME_RATIO
from cem_jax.runs.benchmark.session import Plan
from cem_jax.runs.benchmark.shape import Shape
from cem_jax.runs.benchmark.sides import model_config
from cem_jax.runs.benchmark.timing import Side

PEER = "Hugging Face"


@dataclasses.dataclass(frozen=True)
class Options(Common):
    """A whole training step of our Llama over one of Hugging Face's in PyTorch.

    Equal shapes and numbers of parameters, float32, AdamW, all cores; PyTorch runs eagerly. The
    two take turns in one process.
    """

    adamw: AdamW = "fused"
    """PyTorch's implementation: fused is its fastest, default the one it takes by itself."""

    pause: float = 0.3
    """Seconds before each step, in which the threads of the other library fall asleep."""

    shape: Annotated[Shape, tyro.conf.arg(name="")] = Shape()
    """Of the models and of a batch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.pause < float("inf"):
            raise ValueError(f"pause: got {self.pause}, expected seconds, at least 0.")
        if self.shape.dtype != "float32":
            raise ValueError(f"dtype: got {self.shape.dtype}, expected float32, as the peer has.")


def plan(options: Options) -> Plan:
    """One group of two."""
    libraries()

    def sides() -> list[Side]:
        config = model_config("llama", options.shape)
        ours = model_side("ours", config, options.shape, "step")
        flops = ours.figures["flops"]
        return [peer_side(PEER, config, options.shape, options.adamw, flops), ours]

    return Plan(
        "huggingface",
        "Our Llama's training step beside Hugging Face's in PyTorch",
        dataclasses.asdict(options.shape) | {"adamw": options.adamw, "pause": options.pause},
        [Job("training step", PEER, sides)],
        {
            "": functools.partial(
                draw_ratios,
                quantity=TIME_RATIO,
                title="Time of our Llama's step over Hugging Face's",
                target=0.65,
            )
        },
        PACKAGES,
        options.pause,
    )


if __name__ == "__main__":
    sys.exit(start(Options, plan, sys.argv[1:]))
