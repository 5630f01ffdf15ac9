"""Keep what runs of `cem sweep` reached, as small files that are committed.

    python -m experiments.language_model.collect runs/language_model

Each run that has ended becomes one file in results/: its configuration, its figures, its course,
versions and machine. Files of runs that are not in the folder stay; a run of other options, or of
another text, never takes the place of one that is there.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from cem_jax.runs.described import completed
from cem_jax.runs.folder import RunFolder
from experiments.pages import read_json

RESULTS = Path(__file__).parent / "results"

BINS = 40
"""Points of the training loss that are kept, each the mean of the steps before it."""

NAME = re.compile(r"(.+)-s(\d+)")
"""The folder of a run of a sweep: its variant and its seed."""

POINT = re.compile(r"\[\s+([^\s\[\]{}]+),\s+([^\s\[\]{}]+)\s+\]")

KEPT = (
    "parameters",
    "parameters_without_embeddings",
    "forward_flops_per_token",
    "train_tokens",
    "valid_loss",
    "valid_bits_per_byte",
    "test_loss",
    "test_bits_per_byte",
    "least_eigenvalue_attention",
    "least_eigenvalue_mlp",
    "seconds",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, help="the folder of a sweep")
    parser.add_argument("--kind", default="claims", help="a folder in results/")
    options = parser.parse_args()
    if not options.runs.is_dir():
        parser.error(f"runs: got {options.runs}, which is no folder, expected that of a sweep")
    if not re.fullmatch(r"[\w.-]+", options.kind):
        parser.error(f"kind: got {options.kind!r}, expected letters, digits, - and .")
    kept = collect(options.runs, RESULTS / options.kind)
    print(f"{kept} runs in {RESULTS / options.kind}")


def collect(runs: Path, to: Path) -> int:
    """Write a file for each run of a sweep that has ended; how many there are.

    Raises:
        ValueError: a file holds another run of that name; nothing is written then.
    """
    folders = [RunFolder(path) for path in sorted(runs.iterdir()) if NAME.fullmatch(path.name)]
    ended = [folder for folder in folders if folder.holds_a_run() and folder.summary()]
    records = {to / f"{folder.path.name}.json": record(folder) for folder in ended}
    for path, own in records.items():
        if path.is_file():
            _require_same(path, own)
    to.mkdir(parents=True, exist_ok=True)
    for path, own in records.items():
        # The innermost lists, which are points, in a line each.
        text = POINT.sub(r"[\1, \2]", json.dumps(own, indent=1))
        draft = path.with_suffix(".part")
        draft.write_text(text + "\n", encoding="utf-8")
        draft.replace(path)
    return len(records)


def _require_same(path: Path, own: dict[str, Any]) -> None:
    """Refuse to put a run in the place of another one."""
    there = read_json(path)
    differ = [key for key in ("config", "hashes") if completed(there[key]) != completed(own[key])]
    if differ:
        raise ValueError(
            f"collect: got a run {path.stem} whose {' and '.join(differ)} are not those in {path}, "
            f"expected the same run; keep it in a folder of its own (--kind), or remove that file."
        )


def record(folder: RunFolder) -> dict[str, Any]:
    """A run as one small object."""
    stored, summary = folder.config(), folder.summary()
    assert summary is not None
    variant, seed = NAME.fullmatch(folder.path.name).groups()  # type: ignore[union-attr]
    config = without_places(stored["config"])
    return {
        "variant": variant,
        "seed": int(seed),
        **{key: summary[key] for key in KEPT if key in summary},
        "course": course(folder.metrics()),
        "config": config,
        "hashes": stored["hashes"],
        "versions": stored["versions"],
        "machine": stored["machine"],
    }


def without_places(described: Any) -> Any:
    """Where a text or an energy lay says nothing: which it was, its hash does."""
    if isinstance(described, dict):
        return {
            key: Path(value).name if key in ("source", "spec") else without_places(value)
            for key, value in described.items()
        }
    return (
        [without_places(item) for item in described] if isinstance(described, list) else described
    )


def course(records: list[dict[str, Any]]) -> dict[str, list[list[float]]]:
    """[step, nats] of the training loss, in bins, and of the validation loss on the way."""
    steps = [record for record in records if "loss" in record]
    width = max(1, len(steps) // BINS)
    training = [
        [part[-1]["step"], round(sum(each["loss"] for each in part) / len(part), 5)]
        for part in (steps[start : start + width] for start in range(0, len(steps), width))
    ]
    valid = [[r["step"], round(r["valid_loss"], 5)] for r in records if "valid_loss" in r]
    return {"training": training, "validation": valid}


if __name__ == "__main__":
    main()
