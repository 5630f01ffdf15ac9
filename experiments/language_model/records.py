"""The committed results of the language models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments.language_model.collect import RESULTS


def load_records(kind: str = "claims", folder: Path = RESULTS) -> list[dict[str, Any]]:
    """What `collect` wrote, by variant and seed in the order of their names."""
    paths = sorted((folder / kind).glob("*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def figures(records: list[dict[str, Any]], figure: str) -> dict[str, dict[int, float]]:
    """A figure by variant and seed, of the records that have it."""
    found: dict[str, dict[int, float]] = {}
    for record in records:
        if figure in record:
            found.setdefault(record["variant"], {})[record["seed"]] = record[figure]
    return found


def deciding(records: list[dict[str, Any]]) -> str:
    """The figure that claims are read from: the test's, once the test was evaluated."""
    tested = all("test_bits_per_byte" in record for record in records)
    return "test_bits_per_byte" if tested and records else "valid_bits_per_byte"
