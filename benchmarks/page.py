"""Writes the page of results: every figure on it comes from a JSON file beside it."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import tyro
from common import RESULTS
from targets import TARGETS, Figure, Target

from cem_jax.runs.benchmark.record import Record, read
from cem_jax.runs.benchmark.table import SPREAD_SAID, markdown

COMMANDS = {
    "cem_over_llama": "cem bench --name cem_over_llama --out benchmarks/results",
}
"""Of the measurements that are no script of their own."""

REASONS = "reasons.md"
"""Why targets were missed, written by hand; it follows the table."""

HEADER = f"""# Results

Written by `python benchmarks/page.py` from the JSON files in this folder, which hold the seconds of
every round; [what is measured and how](../README.md).

{SPREAD_SAID} A verdict is on medians.

| | what | target | measured | verdict | command |
| --- | --- | --- | --- | --- | --- |
"""


@dataclasses.dataclass(frozen=True)
class Options:
    """Write the page of results from the JSON files beside it."""

    folder: Path = RESULTS
    """Where the JSON files are, and the page, README.md."""

    check: bool = False
    """Write nothing; the exit status is 1 where the page is not that of the files."""


def main(arguments: list[str]) -> int:
    """Write or check the page; the exit status."""
    options = tyro.cli(Options, args=arguments)
    try:
        text = page(options.folder)
    except ValueError as error:
        print(f"page.py: {error}", file=sys.stderr)
        return 2
    path = options.folder / "README.md"
    if not options.check:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return 0
    print(f"page.py: {path} is not that of the files; write it with python benchmarks/page.py")
    return 1


def page(folder: Path) -> str:
    """The text of the page.

    Raises:
        ValueError: a JSON file in the folder is no record.
    """
    paths = sorted(folder.glob("*.json"), key=lambda path: path.stem)
    records = {path.stem: read(path) for path in paths}
    order = {target.measurement: n for n, target in reversed(list(enumerate(TARGETS)))}
    records = dict(sorted(records.items(), key=lambda item: order.get(item[1].measurement, 99)))
    lines = [line for target in TARGETS for line in target_lines(target, records)]
    sections = [section(stem, record, folder, records) for stem, record in records.items()]
    reasons = folder / REASONS
    why = reasons.read_text(encoding="utf-8") if reasons.is_file() else ""
    return HEADER + "".join(lines) + why + "".join(sections)


def target_lines(target: Target, records: dict[str, Record]) -> list[str]:
    """A row of the table for each record that has figures, or one that says there is none."""
    found = {
        stem: figures
        for stem, record in records.items()
        if record.measurement == target.measurement and (figures := target.figures(record))
    }
    if not found:
        return [_row(target, "not measured yet", "", _command(target.measurement))]
    return [
        _row(
            target,
            _measured(target, figures),
            _verdict(target, figures, complete=records[stem].complete),
            f"[{stem}](#{stem})",
        )
        for stem, figures in found.items()
    ]


def _row(target: Target, measured: str, verdict: str, command: str) -> str:
    cells = (target.number, target.claim, target.bound(), measured, verdict, command)
    return f"| {' | '.join(cells)} |\n"


def _measured(target: Target, figures: list[Figure]) -> str:
    values = [figure.value for figure in figures]
    if len(set(values)) == 1:
        return f"{values[0]:.4g}"
    worst = target.worst(figures)
    return f"{min(values):.4g} to {max(values):.4g}; worst {worst.value:.4g} ({worst.label})"


def _verdict(target: Target, figures: list[Figure], *, complete: bool) -> str:
    missed = [figure for figure in figures if not target.met(figure)]
    if not missed:
        return "met" if complete else "open: not all of it was measured"
    return f"**missed** ({len(missed)} of {len(figures)})" if len(figures) > 1 else "**missed**"


def _command(measurement: str) -> str:
    return f"`{COMMANDS.get(measurement, f'python benchmarks/{measurement}.py')}`"


def section(stem: str, record: Record, folder: Path, records: dict[str, Record]) -> str:
    """All that a record says: machine, versions, table, what missed its target, pictures."""
    machine, versions = record.machine, record.versions
    parts = [
        f"\n## {stem}\n\n{record.title}. Measured on {record.date[:10]} by `{record.command}`, on "
        f"{_machine(machine)}; {_versions(versions)}. {_settings(record.settings)}\n",
        "" if record.complete else "\nInterrupted: **not all of it was measured.**\n",
        f"\n{markdown(record)}",
        *(_misses(target, record) for target in TARGETS),
        *(f"\n![{record.title}]({name})\n" for name in _pictures(stem, folder, records)),
    ]
    return "".join(parts)


def _machine(machine: dict[str, Any]) -> str:
    memory = machine["memory_bytes"]
    size = "" if memory is None else f", {memory / 2**30:.0f} GiB"
    return (
        f"{machine['processor']} ({machine['cpus']} cores{size}, device {machine['device']}, load "
        f"{machine['load_average']} before)"
    )


def _versions(versions: dict[str, Any]) -> str:
    told = ("python", "cem_jax", "jax", "jaxlib", "flax", "torch", "transformers")
    return ", ".join(f"{name} {versions[name]}" for name in told if versions.get(name))


def _settings(settings: dict[str, Any]) -> str:
    return "; ".join(f"{name} {value}" for name, value in settings.items()) + "."


def _misses(target: Target, record: Record) -> str:
    if record.measurement != target.measurement:
        return ""
    missed = [figure for figure in target.figures(record) if not target.met(figure)]
    if not missed:
        return ""
    told = "; ".join(f"{figure.label}: {figure.value:.4g}" for figure in missed)
    return f"\n**Missed** ({target.claim}, {target.bound()}): {told}.\n"


def _pictures(stem: str, folder: Path, records: dict[str, Record]) -> list[str]:
    """Those whose name begins with the record's and with no longer record's."""

    def owner(name: str) -> str:
        return max(
            (s for s in records if name == s or name.startswith(f"{s}-")), key=len, default=""
        )

    return [path.name for path in sorted(folder.glob("*.png")) if owner(path.stem) == stem]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
