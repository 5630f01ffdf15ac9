"""The committed results of the language models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cem_jax.models.cost import PRODUCTS_IN_TRAINING
from experiments.language_model.collect import RESULTS
from experiments.pages import read_json

CORPUS = "eb5f77fb7c38af35a7b1751f13dc78a914e4695f5627e7f7a3fa5cb371f0cfac"
"""The text that `corpus.py` rebuilds, as runs know it: `Corpus.content_hash`, of its documents and
of how they are split."""

STEP_TIMES = RESULTS / "step-times.json"
"""What `step_times` measures."""


def load_records(kind: str = "claims", folder: Path = RESULTS) -> list[dict[str, Any]]:
    """What `collect` wrote, by variant and seed in the order of their names.

    Raises:
        ValueError: a file is damaged, or of another text or tokenizer than the first.
    """
    paths = sorted((folder / kind).glob("*.json"))
    records = [read_json(path) for path in paths]
    for path, record in zip(paths, records, strict=True):
        if record["hashes"] != records[0]["hashes"]:
            raise ValueError(
                f"results: got {path} of the text and tokenizer {record['hashes']}, expected "
                f"{records[0]['hashes']} as in {paths[0].name}, since others do not compare; keep "
                f"them in a folder of their own (collect --kind)."
            )
    return records


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


def text_of(records: list[dict[str, Any]]) -> str:
    """Which text the deciding figure is of, in a word."""
    return "test" if deciding(records).startswith("test") else "validation"


def training_flops(records: list[dict[str, Any]]) -> dict[str, float]:
    """Of a whole training by variant: what the model multiplies, not the optimiser."""
    return {
        record["variant"]: PRODUCTS_IN_TRAINING
        * record["forward_flops_per_token"]
        * record["train_tokens"]
        for record in records
        if "train_tokens" in record
    }
