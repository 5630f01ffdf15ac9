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
_SHAPE = re.compile(r"([a-z]+\d*)\[([\d,]*)\]")


@dataclasses.dataclass(frozen=True)
class Traffic:
    """What one kind of collective moves in one run of the program.

    Attributes:
        count: how many there are, those in loops as often as the loop runs.
        bytes: of their results on one device.
    """

    count: int = 0
    bytes: int = 0


def collectives(text: str) -> dict[str, Traffic]:
    """The collectives of an optimised program, by kind.

    A loop's are counted as often as XLA says that it runs; one of unknown length counts once.

    Args:
        text: ``compiled.as_text()``.
    """
    entry, computations = _computations(text)
    total: dict[str, Traffic] = {}
    for name, times in _times(entry, computations).items():
        for line in computations[name]:
            if (found := _collective(line)) is not None:
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
            trips = _TRIPS.search(line)
            each = count * (int(trips[1]) if trips and " while(" in line else 1)
            called = _CALL.findall(line)
            for branches in _BRANCHES.findall(line):
                called += [branch.strip().lstrip("%") for branch in branches.split(",")]
            for other in called:
                if other in computations:
                    visit(other, each)

    visit(entry, 1)
    return times


def _collective(line: str) -> tuple[str, int] | None:
    """Kind and bytes of the collective that a line is; None where it is none."""
    for kind in KINDS:
        for name in (f" {kind}(", f" {kind}-start("):
            if name in line:
                result = line.split("=", 1)[1].split(name)[0]
                sizes = [_size(*shape) for shape in _SHAPE.findall(result)]
                # That of an asynchronous one has the operands in front, as many as results.
                return kind, sum(sizes[len(sizes) // 2 :] if "-start(" in name else sizes)
    return None


def _size(dtype: str, shape: str) -> int:
    digits = re.search(r"\d+", dtype)
    bits = _BITS.get(dtype, int(digits[0]) if digits else 8)
    return math.prod(int(n) for n in shape.split(",") if n) * bits // 8
