"""What is asked of the measurements, and what a record says to it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

from cem_jax.runs.benchmark.quantities import (
    BYTES_RATIO,
    RELATIVE_RATE,
    TEXT_RATE,
    TIME_OVER_FLOPS,
    TIME_RATIO,
    TOKEN_RATE,
    Quantity,
    spread,
)
from cem_jax.runs.benchmark.record import Group, Measured, Record

QUADRATIC = ("reference", "plain")
"""Backends whose memory need not be linear in the length."""


class Figure(NamedTuple):
    """One number that a target is about: where it stands, and what it is."""

    label: str
    value: float


class Target(NamedTuple):
    """A bound on some figures of a record.

    Attributes:
        number: in the list of targets.
        claim: what is compared.
        limit: the bound.
        above: whether figures must be at least the limit, instead of at most.
        measurement: whose records have the figures.
        figures: reads them off a record.
    """

    number: str
    claim: str
    limit: float
    above: bool
    measurement: str
    figures: Callable[[Record], list[Figure]]

    def met(self, figure: Figure) -> bool:
        """Whether a figure keeps the bound."""
        return figure.value >= self.limit if self.above else figure.value <= self.limit

    def worst(self, figures: list[Figure]) -> Figure:
        """The one nearest to the bound, or the farthest beyond it."""
        values = [figure.value for figure in figures]
        return figures[values.index(min(values) if self.above else max(values))]

    def bound(self) -> str:
        """The limit, as text."""
        if self.limit == 0:
            return "none"
        return f"{'>=' if self.above else '<='} {self.limit:g}"


def medians(
    quantity: Quantity, of: Callable[[Group, Measured], bool] = lambda group, side: True
) -> Callable[[Record], list[Figure]]:
    """The median over rounds of each side but the baselines, where ``of`` says so."""

    def figures(record: Record) -> list[Figure]:
        return [
            Figure(f"{group.name}, {side.name}", spread(values).median)
            for group in record.groups
            for side in group.sides
            if side.name != group.baseline and of(group, side)
            if (values := quantity.of(group, side))
        ]

    return figures


def growth(record: Record) -> list[Figure]:
    """Bytes at the longest sequence over those at the shortest, for 16 times the length."""
    points = _by_line(record)
    return [
        Figure(label, 16 * (bytes_[-1] / bytes_[0]) / (lengths[-1] / lengths[0]))
        for label, (lengths, bytes_) in points.items()
        if len(lengths) > 1
    ]


def share_of_naive(record: Record) -> list[Figure]:
    """Bytes at the longest sequence over those of the naive form."""
    longest = max((side.figures["length"] for g in record.groups for side in g.sides), default=0)
    return medians(
        BYTES_RATIO,
        lambda group, side: side.figures["length"] == longest and side.name not in QUADRATIC,
    )(record)


def further_arrays(record: Record) -> list[Figure]:
    """The dearest further step of each group, in arrays."""
    result = []
    for group in record.groups:
        points = sorted((side.figures["steps"], side.figures["arrays"]) for side in group.sides)
        pairs = itertools.pairwise(points)
        dearest = max((b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs)
        result.append(Figure(group.name, dearest))
    return result


def compiled_again(record: Record) -> list[Figure]:
    """Programs that further calls compiled."""
    return [
        Figure(f"{group.name}, {side.name}", side.figures["compilations"])
        for group in record.groups
        for side in group.sides
        if "compilations" in side.figures
    ]


def _by_line(record: Record) -> dict[str, tuple[list[float], list[float]]]:
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for group in record.groups:
        for side in group.sides:
            if side.name in QUADRATIC:
                continue
            label = f"{side.name}, {group.name.split(',')[0]}"
            lengths, bytes_ = lines.setdefault(label, ([], []))
            lengths.append(side.figures["length"])
            bytes_.append(side.figures["temporary_bytes"])
    return lines


def _is_cem(group: Group, side: Measured) -> bool:
    return side.name.startswith("cem-")


def _is_compile_time(group: Group, side: Measured) -> bool:
    return group.name.startswith("compile time")


TARGETS = (
    Target(
        "1",
        "layer derived by autograd / written by hand: time",
        1.05,
        False,
        "derived_over_hand",
        medians(TIME_RATIO),
    ),
    Target(
        "1",
        "layer derived by autograd / written by hand: temporary memory",
        1.02,
        False,
        "derived_over_hand",
        medians(BYTES_RATIO),
    ),
    Target(
        "2",
        "training step of the CEM / our Llama: time ratio / FLOP ratio",
        1.05,
        False,
        "cem_over_llama",
        medians(TIME_OVER_FLOPS, _is_cem),
    ),
    Target(
        "3",
        "attention with a shared diagonal / none: time ratio / FLOP ratio",
        1.15,
        False,
        "diagonal",
        medians(TIME_OVER_FLOPS),
    ),
    Target(
        "4",
        "FLOP/s of a training step / of a large matrix product",
        0.6,
        True,
        "machine_rate",
        medians(RELATIVE_RATE),
    ),
    Target(
        "5",
        "training step of our Llama / Hugging Face's in PyTorch: time",
        0.65,
        False,
        "huggingface",
        medians(TIME_RATIO),
    ),
    Target(
        "6",
        "attention's temporary memory at 16 times the length / at one",
        16.5,
        False,
        "memory_length",
        growth,
    ),
    Target(
        "6",
        "attention's temporary memory at the longest sequence / the naive form's",
        1 / 20,
        False,
        "memory_length",
        share_of_naive,
    ),
    Target(
        "7",
        "temporary memory of a further inner step with remat: float32 arrays [B, L, D]",
        1.1,
        False,
        "memory_steps",
        further_arrays,
    ),
    Target(
        "8",
        "compile time at 32 layers / at 4",
        1.2,
        False,
        "compiling",
        medians(TIME_RATIO, _is_compile_time),
    ),
    Target("9", "programs that further calls compile", 0, False, "compiling", compiled_again),
    Target(
        "10",
        "batches from prepared shards / training steps of the preset tiny: tokens a second",
        20,
        True,
        "data_feed",
        medians(TOKEN_RATE),
    ),
    Target(
        "11",
        "cem data prepare, one process / its tokenizer alone: bytes a second",
        0.7,
        True,
        "data_feed",
        medians(TEXT_RATE),
    ),
)
