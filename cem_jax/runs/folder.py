"""The folder of a run: what it is, what happened, what it reached."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cem_jax.sharding.processes import is_first

CONFIG, METRICS, SAMPLES, SUMMARY = "config.json", "metrics.jsonl", "samples.txt", "summary.json"
NON_FINITE = "non-finite"

HEADING = "=== step "
"""How a sample begins in ``samples.txt``."""


class RunFolder:
    """Files of one run.

    ``config.json`` (all that repeats it), ``metrics.jsonl`` (a line per step and evaluation),
    ``samples.txt``, ``summary.json``, ``loss.png``, and the folders ``checkpoints`` and
    ``tokenizer``; ``profile`` where it was asked for; and ``non-finite/step-N.jsonl``, the rows of
    each step N whose loss or gradient was no finite number.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.tokenizer = path / "tokenizer"
        self.picture = path / "loss.png"
        self.profile = path / "profile"

    def create(self) -> None:
        """Make the folder, before any work is done for it.

        Raises:
            ValueError: it cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(
                f"out: got {self.path}, which cannot be made ({error.strerror}), expected a place "
                f"that can be written; choose another."
            ) from error

    def holds_a_run(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / CONFIG).is_file()

    def write(self, name: str, content: dict[str, Any]) -> None:
        """A JSON file, whole or not at all."""
        self._replace(name, json.dumps(content, indent=2) + "\n")

    def read(self, name: str, *keys: str) -> dict[str, Any]:
        """A JSON file with an object that has these keys.

        Raises:
            ValueError: there is none, or it is damaged.
        """
        path = self.path / name
        if not path.is_file():
            raise ValueError(
                f"run: got no file {path}, expected the folder of a run, as cem train writes it; "
                f"check the name."
            )
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            for key in keys:
                content[key]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"run: got a damaged file {path} ({type(error).__name__}: {error}), expected a "
                f"JSON object with {', '.join(keys) or 'anything'}; restore it."
            ) from error
        return content

    def config(self) -> dict[str, Any]:
        """What the run is: the content of ``config.json``.

        Raises:
            ValueError: there is none, or it is damaged.
        """
        return self.read(CONFIG, "config", "hashes")

    def summary(self) -> dict[str, Any] | None:
        """What the run reached; None where it has not ended, or the file is damaged."""
        figures = ("valid_loss", "valid_bits_per_byte")
        try:
            reached = self.read(SUMMARY, "name", "sample", *figures)
        except ValueError:
            # It is computed again from the last state.
            return None
        return reached if all(isinstance(reached[each], int | float) for each in figures) else None

    def metrics(self) -> list[dict[str, Any]]:
        """The records of the run; lines that were not written whole are left out."""
        path = self.path / METRICS
        lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
        records = (_record(line) for line in lines if line.endswith(b"\n"))
        return [record for record in records if record is not None]

    def append_metrics(self, records: list[dict[str, Any]]) -> None:
        """Lines of ``metrics.jsonl``."""
        self._append(METRICS, "".join(json.dumps(record) + "\n" for record in records))

    def append_sample(self, step: int, text: str) -> None:
        """A sample and the step it was drawn at.

        Its ends are stripped, and what looks like a heading is indented: the file is cut there.
        """
        text = text.strip().replace(HEADING, f" {HEADING}")
        self._append(SAMPLES, f"{HEADING}{step}\n{text}\n\n")

    def write_rows(self, step: int, rows: list[dict[str, Any]]) -> Path:
        """The rows of a step that was not finite, for a person to look at; their file."""
        name = f"{NON_FINITE}/step-{step}.jsonl"
        self._replace(name, "".join(json.dumps(row) + "\n" for row in rows))
        return self.path / name

    def cut_back(self, step: int) -> None:
        """Forget what was written after ``step``: the run goes on from there.

        What it reached is forgotten too, unless this was its last step.
        """
        if max((record["step"] for record in self.metrics()), default=None) != step:
            (self.path / SUMMARY).unlink(missing_ok=True)
        kept = [record for record in self.metrics() if record["step"] <= step]
        self._replace(METRICS, "".join(json.dumps(record) + "\n" for record in kept))
        for file in (self.path / NON_FINITE).glob("step-*.jsonl"):
            number = file.stem.removeprefix("step-")
            if number.isdigit() and int(number) > step:
                file.unlink()
        path = self.path / SAMPLES
        # Bytes of a sample may be no UTF-8.
        text = path.read_bytes().decode("utf-8", "surrogateescape") if path.is_file() else ""
        samples = [part for part in text.split(f"\n{HEADING}") if part]
        samples = [part if n == 0 else HEADING + part for n, part in enumerate(samples)]
        early = [part for part in samples if _step(part) <= step]
        self._replace(SAMPLES, "".join(part.rstrip("\n") + "\n\n" for part in early))

    def _append(self, name: str, text: str) -> None:
        with (self.path / name).open("ab") as file:
            file.write(text.encode("utf-8", "surrogateescape"))

    def _replace(self, name: str, text: str) -> None:
        draft = self.path / f"{name}.part"
        draft.parent.mkdir(exist_ok=True)
        # Bytes: line ends stay what they are.
        draft.write_bytes(text.encode("utf-8", "surrogateescape"))
        draft.replace(self.path / name)


class ReadRunFolder(RunFolder):
    """The folder as all processes but the first have it: read, and never written."""

    def create(self) -> None:
        """Leave it to the first process."""

    def cut_back(self, step: int) -> None:
        """Leave it to the first process."""

    def _append(self, name: str, text: str) -> None:
        pass

    def _replace(self, name: str, text: str) -> None:
        pass


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(line)
        return record if isinstance(record["step"], int) else None
    except (ValueError, KeyError, TypeError):
        return None


def _step(sample: str) -> int:
    number = sample.removeprefix(HEADING).split("\n", 1)[0]
    return int(number) if number.isdigit() else 0


def run_folder(path: Path) -> RunFolder:
    """The folder of a run as this process has it: the first of several writes, the others read."""
    return RunFolder(path) if is_first() else ReadRunFolder(path)


def require_free(folder: RunFolder, *, resume: bool) -> None:
    """Refuse a place that holds something else: no run overwrites another."""
    path = folder.path
    if path.exists() and not path.is_dir():
        raise ValueError(f"out: got {path}, which is a file, expected a folder.")
    if not path.is_dir() or (resume and folder.holds_a_run()):
        return
    if folder.holds_a_run():
        raise ValueError(
            f"out: got {path}, which holds a run, expected a new folder; add --resume to go on "
            f"with it, or choose another name."
        )
    # What a process that was killed had begun to write is no content.
    if any(not file.name.endswith((".part", ".lock")) for file in path.iterdir()):
        raise ValueError(
            f"out: got {path}, which is not empty and holds no run, expected a new folder; choose "
            f"another name."
        )


def next_folder(root: Path, name: str) -> Path:
    """The first of ``root/name-001``, ``root/name-002``, ... that does not exist."""
    number = 1
    while (path := root / f"{name}-{number:03d}").exists():
        number += 1
    return path
