"""A part: some files of the source, made into a shard of each split that they have text for."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cem_jax.data.json_lines import Document
from cem_jax.data.prepared.config import PrepareConfig
from cem_jax.data.prepared.documents import Broken, documents
from cem_jax.data.prepared.domains import LABELLED, LABELS, label_of
from cem_jax.data.prepared.inputs import SPLITS, Input
from cem_jax.data.prepared.manifest import PARTS, is_whole, read_json, write_json
from cem_jax.data.prepared.packers import make_packer
from cem_jax.data.prepared.selection import is_taken, split_of
from cem_jax.data.prepared.shards import RowFormat, Shard, ShardWriter
from cem_jax.data.prepared.tally import Counts, Tally
from cem_jax.data.reading import Advanced
from cem_jax.data.text import to_bytes
from cem_jax.data.tokenizer import Tokenizer


class Part(NamedTuple):
    """Some files and where their rows go: the same bytes whoever makes them, and when.

    Attributes:
        number: of the part, from 0, in the order of the files.
        root: the folder that the files' names are within.
        files: the inputs.
        out: the prepared folder.
    """

    number: int
    root: Path | None
    files: tuple[Input, ...]
    out: Path

    @property
    def report(self) -> Path:
        """The file that says that the part is done, and what it holds."""
        return self.out / PARTS / f"{self.number:06d}.json"


def make_part(part: Part, config: PrepareConfig, tokenizer: Tokenizer, advanced: Advanced) -> None:
    """Read the files, write the shards, and then the report.

    Raises:
        ValueError: something is broken, and that stops the work.
    """
    form = RowFormat.of(config.length, tokenizer.vocab_size)
    outputs = {split: _Output(part, split, config, form) for split in SPLITS}
    tally = Tally()
    for file, document in _taken(part, config, tally, advanced):
        split = split_of(file, document)
        pieces = np.asarray(tokenizer.document(document.text), np.int32)
        outputs[split].add(pieces, document.domain)
        size = len(to_bytes(document.text))
        tally.take(split, document.domain, Counts(1, size, len(pieces) - 1))
    closed = [output.close() for output in outputs.values()]
    shards, labels = ([shard for shard in each if shard] for each in zip(*closed, strict=True))
    for shard in shards:
        assert shard.targets == tally.total(shard.split).targets, "a target was lost or is twice"
    report = {
        "shards": [dataclasses.asdict(shard) for shard in shards],
        "labels": [dataclasses.asdict(shard) for shard in labels],
        "tally": dataclasses.asdict(tally),
    }
    write_json(part.report, report)


class Report(NamedTuple):
    """What a part that is done holds: shards of rows and of their labels, and what was counted."""

    shards: tuple[Shard, ...]
    labels: tuple[Shard, ...]
    tally: Tally


def read_report(part: Part) -> Report | None:
    """What a part holds; None where it is not done."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        if part.report.is_file():
            content = read_json(part.report)
            # An older version wrote no labels.
            kinds = (content["shards"], content.get("labels", []))
            shards, labels = (tuple(Shard(**shard) for shard in each) for each in kinds)
            if all(is_whole(part.out, shard) for shard in shards + labels):
                return Report(shards, labels, Tally.from_json(content["tally"]))
    return None


def _taken(
    part: Part, config: PrepareConfig, tally: Tally, advanced: Advanced
) -> Iterator[tuple[Input, Document]]:
    """The documents that are taken; the others are counted."""
    for file in part.files:
        for found in documents(part.root, file, advanced):
            if isinstance(found, Broken):
                if config.on_error == "stop":
                    raise ValueError(
                        f"{found.why} Or leave out what is broken, and have it counted: "
                        f"--on-error skip goes on from here."
                    )
                tally.skip(found)
            elif not is_taken(config, found):
                tally.leave_out(found.domain)
            elif not found.text:
                tally.empty += 1
            else:
                yield file, found


class _Output:
    """The shards of a split, rows and labels; there are none where the split has no text."""

    def __init__(self, part: Part, split: str, config: PrepareConfig, form: RowFormat) -> None:
        name = f"{split}-{part.number:06d}"
        self._rows = _Packed(part.out / f"{name}.arrayrecord", split, config, form)
        self._labels: _Packed | None = None
        if split in LABELLED:
            # Packed alike, as rows follow from the lengths of the documents alone.
            labels = RowFormat(config.length, LABELS)
            path = part.out / f"{name}.domains.arrayrecord"
            self._labels = _Packed(path, split, config, labels)

    def add(self, pieces: np.ndarray, domain: str) -> None:
        self._rows.add(pieces)
        if self._labels is not None:
            self._labels.add(np.full_like(pieces, label_of(domain)))

    def close(self) -> tuple[Shard | None, Shard | None]:
        return self._rows.close(), None if self._labels is None else self._labels.close()


class _Packed:
    """Documents, packed into a shard; the file is there from the first on."""

    def __init__(self, path: Path, split: str, config: PrepareConfig, form: RowFormat) -> None:
        self._path, self._split, self._form = path, split, form
        self._packer = make_packer(config.packing, config.length)
        self._writer: ShardWriter | None = None

    def add(self, pieces: np.ndarray) -> None:
        if self._writer is None:
            self._writer = ShardWriter(self._path, self._split, self._form)
        for rows in self._packer.add(pieces):
            self._writer.write(rows)

    def close(self) -> Shard | None:
        if self._writer is None:
            return None
        for rows in self._packer.finish():
            self._writer.write(rows)
        return self._writer.close()
