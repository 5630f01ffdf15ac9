"""Temporary memory of attention against the length of the sequence; nothing is run."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro
from common import Common, start
from layers import LayerShape, Sublayer, attention

from cem_jax import InteractionConfig
from cem_jax.ops.checks import require_count
from cem_jax.runs.benchmark.compiled import temporary_bytes
from cem_jax.runs.benchmark.measuring import Job
from cem_jax.runs.benchmark.picture import Line, draw_lines
from cem_jax.runs.benchmark.record import Record
from cem_jax.runs.benchmark.session import Plan
from cem_jax.runs.benchmark.timing import Side

NAIVE = "plain"


@dataclasses.dataclass(frozen=True)
class Options(Common):
    """Temporary bytes of the training gradient of an attention layer at growing lengths.

    As the compiled program says, with and without a shared diagonal. The naive form is the backend
    plain.
    """

    backends: tuple[str, ...] = ("blockwise", "reference", NAIVE)
    """Of the attention; the naive one is always among them."""

    lengths: tuple[int, ...] = (1024, 2048, 4096, 8192, 16384)
    """L."""

    steps: int = 1
    """T."""

    shape: Annotated[LayerShape, tyro.conf.arg(name="")] = LayerShape(batch=1)
    """Of the layer and its input; the length is that of --lengths."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("steps", self.steps)
        for length in self.lengths:
            require_count("lengths", length)
        for backend in self.backends:
            # Refuses an unknown name before the work.
            InteractionConfig(1, backend=backend)  # type: ignore[arg-type]


def plan(options: Options) -> Plan:
    """One group for each diagonal and length, with the backends as its sides."""
    jobs = [
        Job(name(diagonal, length), NAIVE, functools.partial(sides, options, diagonal, length))
        for diagonal, length in itertools.product(("none", "shared"), options.lengths)
    ]
    return Plan(
        "memory_length",
        "Temporary memory of attention's training gradient against the length",
        dataclasses.asdict(options.shape) | {"steps": options.steps, "lengths": options.lengths},
        jobs,
        {"": draw},
    )


def name(diagonal: str, length: int) -> str:
    """Of a group."""
    return f"diagonal {diagonal}, L = {length}"


def sides(options: Options, diagonal: str, length: int) -> Sequence[Side]:
    """A backend each."""
    shape = dataclasses.replace(options.shape, length=length)
    result = []
    for backend in dict.fromkeys((*options.backends, NAIVE)):
        config = attention(
            shape, options.steps, diagonal=diagonal, preconditioned=False, backend=backend
        )
        compiled = Sublayer(config, shape).compile("step")
        figures = {"length": length, "temporary_bytes": temporary_bytes(compiled)}
        result.append(Side(backend, None, figures))
    return result


def draw(record: Record, path: Path) -> None:
    """A line for each backend and diagonal."""
    points: dict[str, list[tuple[float, float]]] = {}
    for group in record.groups:
        for side in group.sides:
            label = f"{side.name}, {group.name.split(',')[0]}"
            figures = side.figures
            points.setdefault(label, []).append((figures["length"], figures["temporary_bytes"]))
    draw_lines(
        [Line(label, *zip(*pairs, strict=True)) for label, pairs in points.items()],
        path,
        x="sequence length L (tokens)",
        y="temporary memory (bytes)",
        title="Temporary memory of attention's training gradient",
        log=True,
    )


if __name__ == "__main__":
    sys.exit(start(Options, plan, sys.argv[1:]))
