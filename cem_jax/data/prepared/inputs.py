"""Inputs: the files of a source, the split that each is of, and what makes one shard."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cem_jax.data.corpora import CORPORA, builtin_corpus, utf8_bytes
from cem_jax.data.prepared.config import LEAST_SHARD, SHARDS
from cem_jax.data.prepared.kinds import KINDS, kind_of, require_packages
from cem_jax.data.reading import unreadable
from cem_jax.data.sources import nothing_there

SPLITS = ("train", "valid", "test")

SPLIT_NAME = re.compile(r"(train|validation|valid|val|test)(?![a-z])")
"""How the folder of a split begins, or a file beside others: ``train-00000-of-00048.parquet``."""


class Input(NamedTuple):
    """A file of a source.

    Attributes:
        name: its path within the source, with ``/``.
        size: in bytes.
        split: that the source puts it in; None where each document is put in one by its hash.
    """

    name: str
    size: int
    split: str | None


class Inputs(NamedTuple):
    """The files of a source in their order, by name.

    Attributes:
        root: the folder that their names are within; None for a built-in corpus.
        files: the inputs.
    """

    root: Path | None
    files: tuple[Input, ...]


def find_inputs(source: str) -> Inputs:
    """The files of a source, none of them opened.

    A source is the name of a built-in corpus, a file, or a folder with files of one kind, at any
    depth: ``.jsonl``, ``.parquet`` or ``.txt``, the first and the last also with ``.gz``, ``.xz``
    or ``.zst``. A folder ``train`` beside ``validation`` and ``test``, or files whose names begin
    so, are splits of the source's own; what lies within, chunk folders or none and any numbers,
    does not matter.

    Raises:
        ValueError: there is nothing to read, or splits for some of the files only; or a package
            is missing that reads them.
    """
    if source in CORPORA:
        corpus = builtin_corpus(source)
        sizes = {split: utf8_bytes(getattr(corpus, split)) for split in SPLITS}
        return Inputs(None, tuple(Input(f"{source}/{s}", sizes[s], s) for s in SPLITS))
    path = Path(os.path.expanduser(source))
    try:
        if not source or not path.exists():
            raise nothing_there(source)
        if not path.is_dir():
            inputs = Inputs(path.parent, (Input(path.name, path.stat().st_size, None),))
        else:
            inputs = Inputs(path, _with_splits(path, _names(path)))
    except OSError as error:
        raise unreadable(path, error) from error
    require_packages(inputs.root / file.name for file in inputs.files if inputs.root)
    return inputs


def shard_size(files: tuple[Input, ...], asked: int | None) -> int:
    """The bytes of the files that make one shard, at least: as asked, or so that shards are few."""
    return asked or max(LEAST_SHARD, -(-sum(file.size for file in files) // SHARDS))


def group(files: tuple[Input, ...], shard_bytes: int) -> Iterator[tuple[Input, ...]]:
    """Files that make a shard together: neighbours of one split, at least so many bytes of them."""
    part: list[Input] = []
    size = 0
    for file in files:
        if part and (file.split != part[0].split or size >= shard_bytes):
            yield tuple(part)
            part, size = [], 0
        part.append(file)
        size += file.size
    if part:
        yield tuple(part)


def _names(folder: Path) -> list[str]:
    """The files of the folder's one kind; what is hidden is a tool's and no text."""
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    names = [path.as_posix() for path in paths if not any(p.startswith(".") for p in path.parts)]
    kinds = Counter(kind for name in names if (kind := kind_of(name)))
    # Notes beside data are no data: .txt counts where there is nothing else.
    found = [kind for kind in KINDS if kinds[kind]]
    if len(data := [kind for kind in found if kind != "text"]) > 1:
        raise ValueError(
            f"data: got the folder {folder} with {kinds[data[0]]} files {data[0]} and "
            f"{kinds[data[1]]} files {data[1]}, expected one kind, as they may hold the same text; "
            f"give the folder of one."
        )
    if not found:
        raise ValueError(
            f"data: got the folder {folder}, expected .jsonl, .parquet or .txt files in it (.jsonl "
            f"and .txt also with .gz, .xz or .zst); give another folder."
        )
    return sorted(name for name in names if kind_of(name) == found[0])


def _with_splits(folder: Path, names: list[str]) -> tuple[Input, ...]:
    """Each file with its size and split: all have one, in all three, or none has."""
    splits = [_split_of(name) for name in names]
    counts = Counter(splits)
    if set(counts) not in ({None}, set(SPLITS)):
        named = sorted((split or "none", count) for split, count in counts.items())
        shown = ", ".join(f"{count} files in {split}" for split, count in named)
        raise ValueError(
            f"data: got the folder {folder} with {shown}, expected all three splits (folders or "
            f"names that begin with train, validation and test), or none, and then documents are "
            f"split by their hashes; complete the splits, or rename what is none."
        )
    files = [
        Input(name, (folder / name).stat().st_size, split)
        for name, split in zip(names, splits, strict=True)
    ]
    return tuple(sorted(files, key=lambda file: (SPLITS.index(file.split or "train"), file.name)))


def _split_of(name: str) -> str | None:
    found = SPLIT_NAME.match(name.split("/")[0].lower())
    if found is None:
        return None
    return "valid" if found[1].startswith("val") else found[1]
