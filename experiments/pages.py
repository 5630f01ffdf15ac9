"""How the experiments' pages are made: results that are read, tables, sections between marks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file of results.

    Raises:
        ValueError: there is none, or the file is damaged.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"results: got {path}, which cannot be read ({error}), expected a file of JSON; "
            f"restore it from the repository, or run again what makes it."
        ) from error
    return content


def table(header: Sequence[str], rows: Iterable[Sequence[object]], numbers: int = 1) -> str:
    """A table in Markdown; columns from that number on are aligned to the right."""
    rule = ["---" if column < numbers else "---:" for column in range(len(header))]
    return "".join(f"| {' | '.join(map(str, cells))} |\n" for cells in (header, rule, *rows))


def between(text: str, begin: str, end: str, section: str) -> str:
    """The page with this section between its two marks.

    Raises:
        ValueError: a mark is not there.
    """
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"page: got none with {begin} and {end}, expected both; put them back.")
    return f"{before}{begin}\n\n{section}\n{end}{after}"
