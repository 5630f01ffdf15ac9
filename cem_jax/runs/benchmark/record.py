"""What was measured, where and how, as one JSON file."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class Measured:
    """A side after the measurement.

    Attributes:
        name: of the side.
        seconds: of one run, round by round; the same rounds as the others of its group.
        figures: what is known of it without a clock.
    """

    name: str
    seconds: tuple[float, ...]
    figures: dict[str, int | float]


@dataclasses.dataclass(frozen=True)
class Group:
    """Sides that took turns.

    Attributes:
        name: of what they all do.
        baseline: the side that ratios are taken to.
        sides: all of them, the baseline too.
    """

    name: str
    baseline: str
    sides: tuple[Measured, ...]

    def base(self) -> Measured:
        """The baseline itself."""
        return next(side for side in self.sides if side.name == self.baseline)


@dataclasses.dataclass(frozen=True)
class Record:
    """A measurement.

    Attributes:
        measurement: what is measured, as a word.
        title: what is measured, in a line.
        command: that repeats it.
        date: when it began, in ISO 8601.
        machine: processor, cores, memory, load, device.
        versions: of Python and of the libraries.
        settings: shapes and options.
        complete: whether it came to its end.
        groups: what was measured.
    """

    measurement: str
    title: str
    command: str
    date: str
    machine: dict[str, Any]
    versions: dict[str, Any]
    settings: dict[str, Any]
    complete: bool = False
    groups: tuple[Group, ...] = ()

    def group(self, name: str) -> Group | None:
        """The group of that name, if it was measured."""
        return next((group for group in self.groups if group.name == name), None)


def write(record: Record, path: Path) -> None:
    """The JSON file, whole or not at all."""
    draft = path.with_name(f".{path.name}.part")
    draft.write_text(json.dumps(dataclasses.asdict(record), indent=1) + "\n", encoding="utf-8")
    draft.replace(path)


def read(path: Path) -> Record:
    """The record that `write` wrote.

    Raises:
        ValueError: the file is none of ours.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        groups = tuple(_group(group) for group in content.pop("groups"))
        return Record(**content, groups=groups)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"record: got {path} ({type(error).__name__}: {error}), expected a JSON file that a "
            f"benchmark wrote; measure again."
        ) from error


def _group(content: dict[str, Any]) -> Group:
    sides = content.pop("sides")
    measured = (Measured(**{**side, "seconds": tuple(side["seconds"])}) for side in sides)
    return Group(**content, sides=tuple(measured))
