"""The folder of a run: what it was, what happened, what it reached."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
from pathlib import Path
from typing import Any

VERSIONS = (
    "cem_jax",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "grain",
    "sentencepiece",
    "numpy",
)


class RunFolder:
    """Files of one run.

    ``config.json`` (all that repeats it), ``metrics.jsonl`` (a line per step and evaluation),
    ``samples.txt``, ``summary.json``, and the folders ``checkpoints`` and ``tokenizer``.

    Args:
        path: the folder; it is created.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.tokenizer = path / "tokenizer"

    def write(self, name: str, content: dict[str, Any]) -> None:
        """A JSON file, whole or not at all."""
        draft = self.path / f"{name}.part"
        draft.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        draft.replace(self.path / name)

    def append_metrics(self, records: list[dict[str, Any]]) -> None:
        """Lines of ``metrics.jsonl``."""
        self._append("metrics.jsonl", "".join(json.dumps(record) + "\n" for record in records))

    def append_sample(self, step: int, text: str) -> None:
        """A sample and the step it was drawn at."""
        self._append("samples.txt", f"=== step {step}\n{text}\n\n")

    def _append(self, name: str, text: str) -> None:
        with (self.path / name).open("a", encoding="utf-8") as file:
            file.write(text)


def require_free(path: Path) -> None:
    """Refuse a place that holds something: no run overwrites another."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"out: got {path}, which is a file, expected a folder.")
    if path.is_dir() and any(path.iterdir()):
        raise ValueError(
            f"out: got {path}, which is not empty, expected a new folder; choose another name, or "
            f"delete it first."
        )


def create(path: Path) -> None:
    """Make the folder, before any work is done for it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"out: got {path}, which cannot be made ({error.strerror}), expected a place that can "
            f"be written; choose another."
        ) from error


def next_folder(root: Path, name: str) -> Path:
    """The first of ``root/name-001``, ``root/name-002``, ... that does not exist."""
    number = 1
    while (path := root / f"{name}-{number:03d}").exists():
        number += 1
    return path


def describe(value: Any) -> Any:
    """A frozen config as JSON, with the names of the classes: ``{"type": ..., field: ...}``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: describe(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, tuple | list):
        return [describe(item) for item in value]
    if callable(value):
        return value.__qualname__
    return str(value) if isinstance(value, Path) else value


def environment() -> dict[str, Any]:
    """Versions and machine: bits are promised to repeat where these do."""
    import jax

    devices = jax.devices()
    versions = {name: _version(name) for name in VERSIONS}
    return {
        "versions": {"python": platform.python_version(), **versions},
        "machine": {
            "platform": platform.platform(),
            "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
            "devices": len(devices),
            "device": devices[0].device_kind,
        },
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
