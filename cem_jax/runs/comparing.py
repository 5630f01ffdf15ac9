"""Several runs that have ended, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from cem_jax.runs.folder import RunFolder
from cem_jax.runs.picture import Course, draw
from cem_jax.runs.report import table


def side_by_side(folders: Sequence[RunFolder], out: Path) -> tuple[Table, Path]:
    """A table, and the path of a picture in ``out``.

    Bits per byte compare whatever the tokenizers are; where runs have different texts the title
    of the table says so.

    Args:
        folders: of runs that have ended.
        out: is created.
    """
    summaries: list[dict[str, Any]] = []
    runs: dict[str, Course] = {}
    texts: set[str] = set()
    for folder in folders:
        summary = folder.summary()
        assert summary is not None, "the caller has looked"
        label = _label(summary["name"], folder, runs)
        bits = summary["valid_bits_per_byte"] / summary["valid_loss"]
        summaries.append({**summary, "name": label})
        runs[label] = Course(folder.metrics(), bits)
        texts.add(folder.config()["hashes"]["corpus"])
    out.mkdir(parents=True, exist_ok=True)
    picture = out / "loss.png"
    draw(picture, runs)
    title = "One seed each: a difference points a way, and proves nothing"
    if len(texts) > 1:
        title = "DIFFERENT TEXTS: these figures do not compare"
    return table(summaries, title), picture


def _label(name: str, folder: RunFolder, taken: dict[str, Course]) -> str:
    """The run's name, with its folder's where two have the same."""
    label = name if name not in taken else f"{name} ({folder.path.name})"
    number = 2
    while label in taken:
        label, number = f"{name} ({folder.path.name}, {number})", number + 1
    return label
