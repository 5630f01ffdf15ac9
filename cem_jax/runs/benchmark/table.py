"""A record as rows for the eye."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rich import box
from rich.table import Table

from cem_jax.runs.benchmark.quantities import (
    BYTES_RATIO,
    FLOP_RATIO,
    RELATIVE_RATE,
    TEXT_RATE,
    TIME_OVER_FLOPS,
    TIME_RATIO,
    TOKEN_RATE,
    Quantity,
    spread,
)
from cem_jax.runs.benchmark.record import Group, Measured, Record

Cell = Callable[[Group, Measured], str]


class Rows(NamedTuple):
    """A heading for each column, and the cells of each row."""

    header: list[str]
    cells: list[list[str]]


def rows(record: Record) -> Rows:
    """One row for each side of each group; columns that nothing fills are left out."""
    return _filled(record, COLUMNS)


def markdown(record: Record) -> str:
    """The rows as a table of Markdown."""
    header, cells = rows(record)
    lines = [header, ["---"] * len(header), *cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def for_console(record: Record) -> Table:
    """The rows as a table of rich, narrow enough for a terminal."""
    header, cells = _filled(record, NARROW)
    table = Table(title=record.title, caption=SPREAD_SAID, box=box.SIMPLE_HEAD, pad_edge=False)
    for name in header:
        text = name in ("what", "side")
        if text:
            table.add_column(name, overflow="fold", min_width=12)
        else:
            table.add_column(name, justify="right", no_wrap=True)
    for before, row in zip([[""], *cells], cells, strict=False):
        # The group once, above its sides.
        first = "" if row[0] == before[0] else row[0]
        table.add_row(first, *row[1:])
    return table


SPREAD_SAID = (
    "Ratios are to the baseline: medians over the rounds of the ratio within a round, with the "
    "quartiles in brackets."
)
"""What the numbers are."""


def _filled(record: Record, columns: dict[str, Cell]) -> Rows:
    table = [
        [cell(group, side) for cell in columns.values()]
        for group in record.groups
        for side in group.sides
    ]
    # A column that says nothing, or of which group its rows are where there is one group.
    keep = [n for n in range(len(columns)) if any(row[n] for row in table)]
    keep = keep[len(record.groups) == 1 :]
    names = list(columns)
    return Rows([names[n] for n in keep], [[row[n] for n in keep] for row in table])


def _milliseconds(group: Group, side: Measured) -> str:
    return f"{1e3 * spread(side.seconds).median:,.2f}" if side.seconds else ""


def _ratio(quantity: Quantity) -> Cell:
    def cell(group: Group, side: Measured) -> str:
        values = [] if side.name == group.baseline else quantity.of(group, side)
        return said(values)

    return cell


def said(values: list[float]) -> str:
    """The median, and the quartiles where there is more than one value; nothing without any."""
    if not values:
        return ""
    middle = spread(values)
    brackets = "" if middle.rounds == 1 else f" [{middle.low:.3f}, {middle.high:.3f}]"
    return f"{middle.median:.3f}{brackets}"


def _rate(name: str, unit: float, form: str) -> Cell:
    def cell(group: Group, side: Measured) -> str:
        if not side.seconds or name not in side.figures:
            return ""
        return format(side.figures[name] / spread(side.seconds).median / unit, form)

    return cell


def _figure(name: str, unit: float, form: str) -> Cell:
    def cell(group: Group, side: Measured) -> str:
        return format(side.figures[name] / unit, form) if name in side.figures else ""

    return cell


def _median(quantity: Quantity) -> Cell:
    def cell(group: Group, side: Measured) -> str:
        values = [] if side.name == group.baseline else quantity.of(group, side)
        return said([spread(values).median]) if values else ""

    return cell


COLUMNS: dict[str, Cell] = {
    "what": lambda group, side: group.name,
    "side": lambda group, side: side.name,
    "median ms": _milliseconds,
    TIME_RATIO.label: _ratio(TIME_RATIO),
    FLOP_RATIO.label: _ratio(FLOP_RATIO),
    TIME_OVER_FLOPS.label: _ratio(TIME_OVER_FLOPS),
    "GFLOP/s": _rate("flops", 1e9, ",.1f"),
    RELATIVE_RATE.label: _ratio(RELATIVE_RATE),
    "tokens/s": _rate("tokens", 1.0, ",.0f"),
    TOKEN_RATE.label: _ratio(TOKEN_RATE),
    "MB/s": _rate("text_bytes", 1e6, ",.2f"),
    TEXT_RATE.label: _ratio(TEXT_RATE),
    "temporary MB": _figure("temporary_bytes", 1e6, ",.2f"),
    BYTES_RATIO.label: _ratio(BYTES_RATIO),
    "arguments MB": _figure("argument_bytes", 1e6, ",.1f"),
    "sent MB": _figure("sent_bytes", 1e6, ",.1f"),
    "arrays [B, L, D] sent": _figure("sent_arrays", 1.0, ",.2f"),
    "parameters": _figure("parameters", 1.0, ",.0f"),
    "compilations": _figure("compilations", 1.0, ".0f"),
    "rounds": lambda group, side: str(len(side.seconds) or ""),
}
"""Of the table in a file."""

NARROW: dict[str, Cell] = {
    "what": lambda group, side: group.name,
    "side": lambda group, side: side.name,
    "ms": _milliseconds,
    "time ratio": _ratio(TIME_RATIO),
    "FLOPs": _ratio(FLOP_RATIO),
    "time/FLOPs": _median(TIME_OVER_FLOPS),
    TOKEN_RATE.label: _median(TOKEN_RATE),
    TEXT_RATE.label: _median(TEXT_RATE),
    "MB": _figure("temporary_bytes", 1e6, ",.1f"),
    "bytes": _ratio(BYTES_RATIO),
    "sent MB": _figure("sent_bytes", 1e6, ",.1f"),
    "compilations": _figure("compilations", 1.0, ".0f"),
}
"""Of the table on a terminal."""
