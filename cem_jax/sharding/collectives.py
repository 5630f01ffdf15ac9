"""Collectives of a compiled program: what is sent between devices, by kind, and how many bytes."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter

KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute")

_BITS = {"pred": 8, "bf16": 16, "f16": 16, "f32": 32, "f64": 64}
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_CALL = re.compile(
    r"(?:body|condition|to_apply|calls|true_computation|false_computation)=%?([\w.\-]+)"
)
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_CONDITION = re.compile(r"condition=%?([\w.\-]+)")
_BELOW = re.compile(r"compare\(%[\w.\-]+, %([\w.\-]+)\), direction=LT")
_CONSTANT = re.compile(r"\s*(?:ROOT )?%?([\w.\-]+) = s\d+\[\]\S* constant\((\d+)\)")
_DEFINED = re.compile(r"\s*(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) [\w\-]+\(")
_SHAPE = re.compile(r"([a-z]+\d*)\[([\d,]*)\]")


@dataclasses.dataclass(frozen=True)
class Traffic:
    """What one kind of collective moves in one run of the program.

    Attributes:
        count: how many there are, those in loops as often as the loop runs.
        bytes: of their results on one device; of a reduce-scatter those of its operands. A ring
            sends about as many, and of an all-reduce twice as many.
    """

    count: int = 0
    bytes: int = 0


def collectives(text: str) -> dict[str, Traffic]:
    """The collectives of an optimised program, by kind.

    A loop's are counted as often as it runs (`_trips`); one of unknown length counts once.

    Args:
        text: ``compiled.as_text()``.
    """
    entry, computations = _computations(text)
    total: dict[str, Traffic] = {}
    for name, times in _times(entry, computations).items():
        for line in computations[name]:
            if (found := _collective(line, computations[name])) is not None:
                kind, size = found
                before = total.get(kind, Traffic())
                total[kind] = Traffic(before.count + times, before.bytes + times * size)
    return total


def _computations(text: str) -> tuple[str, dict[str, list[str]]]:
    """The name of the entry, and the lines of each computation."""
    entry, name = "", ""
    lines: dict[str, list[str]] = {}
    for line in text.splitlines():
        if (start := _COMPUTATION.match(line)) is not None:
            name = start[1]
            lines[name] = []
            entry = name if line.startswith("ENTRY") else entry
        elif line.strip() == "}":
            name = ""
        elif name:
            lines[name].append(line)
    return entry, lines


def _times(entry: str, computations: dict[str, list[str]]) -> Counter[str]:
    """How often each computation runs."""
    times: Counter[str] = Counter()

    def visit(name: str, count: int) -> None:
        times[name] += count
        for line in computations.get(name, ()):
            each = count * (_trips(line, computations) if " while(" in line else 1)
            called = _CALL.findall(line)
            for branches in _BRANCHES.findall(line):
                called += [branch.strip().lstrip("%") for branch in branches.split(",")]
            for other in called:
                if other in computations:
                    visit(other, each)

    visit(entry, 1)
    return times


def _trips(line: str, computations: dict[str, list[str]]) -> int:
    """How often the body of a loop runs.

    XLA writes it down on CPUs and GPUs. On TPUs it is what the counter is compared with, since
    JAX's loops count from 0 in ones.
    """
    if (known := _TRIPS.search(line)) is not None:
        return int(known[1])
    condition = _CONDITION.search(line)
    lines = computations.get(condition[1], []) if condition else []
    for compared in filter(None, map(_BELOW.search, lines)):
        for each in lines:
            if (constant := _CONSTANT.match(each)) and constant[1] == compared[1]:
                return int(constant[2])
    return 1


def _collective(line: str, computation: list[str]) -> tuple[str, int] | None:
    """Kind and bytes of the collective that a line is; None where it is none."""
    for kind in KINDS:
        for name in (f" {kind}(", f" {kind}-start("):
            if name in line:
                before, after = line.split("=", 1)[1].split(name, 1)
                sizes = _sizes(before)
                if kind == "reduce-scatter":
                    # What is summed, of which the result is a part.
                    summed = sum(_result(each, computation) for each in _operands(after))
                    return kind, summed or sum(sizes)
                if "-start(" in name and kind != "all-reduce":
                    # The operands, as many results, and perhaps counters of the device's.
                    count = len([shape for shape in _SHAPE.findall(before) if shape[1]])
                    sizes = sizes[count // 2 : count]
                return kind, sum(sizes)
    return None


def _operands(text: str) -> list[str]:
    """Their names, in front of the closing bracket."""
    return re.findall(r"%([\w.\-]+)", text.split(")", 1)[0])


def _result(name: str, computation: list[str]) -> int:
    """The bytes of what is called so in a computation."""
    for line in computation:
        if (found := _DEFINED.match(line)) is not None and found[1] == name:
            return sum(_sizes(found[2]))
    return 0


def _sizes(text: str) -> list[int]:
    return [_size(*shape) for shape in _SHAPE.findall(text)]


def _size(dtype: str, shape: str) -> int:
    digits = re.search(r"\d+", dtype)
    bits = _BITS.get(dtype, int(digits[0]) if digits else 8)
    return math.prod(int(n) for n in shape.split(",") if n) * bits // 8
