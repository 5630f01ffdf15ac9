"""A sweep as a TOML file: options of `cem train`, by variant."""

from __future__ import annotations

import dataclasses
import itertools
import re
import tomllib
from pathlib import Path
from typing import Any

KEYS = ("seeds", "baseline", "options", "grid", "variants")
"""What a file may hold."""

RESERVED = ("seed", "out", "resume", "report")
"""Options that the sweep itself decides."""

NAME = re.compile(r"[\w.+=,-]{1,150}")
"""Names become folders."""


@dataclasses.dataclass(frozen=True)
class Variant:
    """A configuration of a sweep: its name, and options of `cem train` as its command line."""

    name: str
    arguments: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class SweepSpec:
    """Variants, each to be run once with every seed.

    Attributes:
        variants: with names of their own.
        seeds: of parameters and of the order of the data: two variants with one seed are a pair.
        baseline: the name of the variant that the others are compared with.
    """

    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    baseline: str


def read_spec(path: Path) -> SweepSpec:
    """The sweep that a TOML file describes.

    ``seeds`` is a list of numbers, ``[options]`` holds options of every run, ``[grid]`` options
    with a list of values each, all combinations of which are run, and each ``[[variants]]`` a
    ``name`` and options of its own, which go before those of every run. With both a grid and
    variants, every variant is run at every point of the grid. ``baseline`` names a variant; by
    default it is the first.

    Args:
        path: of the file.

    Raises:
        ValueError: it cannot be read, or says something else.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"spec: got {path}, which cannot be read ({error}), expected a TOML file; "
            f"cem sweep --help shows one."
        ) from error
    if unknown := [key for key in content if key not in KEYS]:
        raise ValueError(
            f"spec: got {unknown[0]!r} in {path}, expected only {', '.join(KEYS)}; options of "
            f"cem train stand under [options]."
        )
    variants = tuple(_variants(content))
    names = [variant.name for variant in variants]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"spec: got two variants {twice[0]!r}, expected names of their own.")
    baseline = content.get("baseline", names[0])
    if baseline not in names:
        raise ValueError(
            f"spec: got the baseline {baseline!r}, expected a variant: {', '.join(names)}."
        )
    return SweepSpec(variants, _seeds(content.get("seeds", [0])), baseline)


def _seeds(seeds: Any) -> tuple[int, ...]:
    good = isinstance(seeds, list) and all(type(seed) is int and seed >= 0 for seed in seeds)
    if not good or not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(
            f"spec: got seeds = {seeds!r}, expected a list of different whole numbers from 0."
        )
    return tuple(seeds)


def _variants(content: dict[str, Any]) -> list[Variant]:
    """Every variant at every point of the grid."""
    for key in ("options", "grid"):
        if not isinstance(content.get(key, {}), dict):
            raise ValueError(f"spec: got {key} that is no table, expected one: [{key}].")
    common = _flat(content.get("options", {}))
    listed = content.get("variants", [])
    if not isinstance(listed, list) or not all(isinstance(own, dict) for own in listed):
        raise ValueError("spec: got variants that are no list, expected tables [[variants]].")
    points = list(_points(_flat(content.get("grid", {}))))
    if not listed and points == [{}]:
        raise ValueError("spec: got nothing to vary, expected [grid] or [[variants]].")
    made = []
    for own, point in itertools.product(listed or [{"name": ""}], points):
        options = {**common, **_flat({k: v for k, v in own.items() if k != "name"}), **point}
        if taken := [key for key in options if key.replace("_", "-") in RESERVED]:
            raise ValueError(
                f"spec: got the option {taken[0]!r}, expected none of {', '.join(RESERVED)}, which "
                f"the sweep decides; seeds are a list at the top."
            )
        made.append(Variant(_name(own, point), arguments_of(options)))
    return made


def _points(grid: dict[str, Any]) -> list[dict[str, Any]]:
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ValueError(
                f"spec: got {key} = {values!r} in the grid, expected a list of values."
            )
    return [dict(zip(grid, point, strict=True)) for point in itertools.product(*grid.values())]


def _name(own: dict[str, Any], point: dict[str, Any]) -> str:
    """The variant's own name, and where it is in the grid: ``cem,learning-rate=0.02``."""
    if not isinstance(own.get("name"), str):
        raise ValueError(f"spec: got a variant without a name ({own!r}), expected name = '...'.")
    where = [f"{_short(key, point)}={value}" for key, value in point.items()]
    name = ",".join([own["name"], *where] if own["name"] else where)
    if not NAME.fullmatch(name):
        raise ValueError(
            f"spec: got the name {name!r}, expected at most 150 letters, digits and . _ + = , -, "
            f"since it becomes a folder; give the variants names, or values that are no paths."
        )
    return name


def _short(key: str, point: dict[str, Any]) -> str:
    """The end of an option's name that tells it from the others of the grid."""
    parts = key.split(".")
    for count in range(1, len(parts)):
        end = ".".join(parts[-count:])
        if sum(f".{other}".endswith(f".{end}") for other in point) == 1:
            return end
    return key


def _flat(options: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Nested tables as dotted names."""
    flat: dict[str, Any] = {}
    for key, value in options.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{before}{key}.")
        else:
            flat[f"{before}{key}"] = value
    return flat


def arguments_of(options: dict[str, Any]) -> tuple[str, ...]:
    """Options as the words of a command line; a truth value is ``--x`` or ``--no-x``."""
    words: list[str] = []
    for key, value in options.items():
        name = key.replace("_", "-")
        if isinstance(value, bool):
            path, _, last = name.rpartition(".")
            last = last if value else f"no-{last}"
            words.append(f"--{path}.{last}" if path else f"--{last}")
        elif isinstance(value, int | float | str):
            words += [f"--{name}", str(value)]
        else:
            raise ValueError(
                f"spec: got {key} = {value!r}, expected a number, a word or true or false; lists "
                f"belong into [grid]."
            )
    return tuple(words)
