"""The text of a run as a model sees it: a tokenizer and packed rows."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from cem_jax.data import Corpus, PackedRows, Tokenizer, load_corpus, make_tokenizer, pack
from cem_jax.data.corpora import utf8_bytes
from cem_jax.runs.config import DataConfig

SPLITS = ("train", "valid", "test")


@dataclasses.dataclass(frozen=True)
class Text:
    """A corpus, a tokenizer, and the pieces of the three splits.

    Attributes:
        corpus: the documents.
        tokenizer: makes pieces of them.
        documents: for each of these splits the pieces of each document, BOS and EOS included.
        rows: for each of these splits the packed rows.
    """

    corpus: Corpus
    tokenizer: Tokenizer
    documents: dict[str, list[np.ndarray]]
    rows: dict[str, PackedRows]

    @classmethod
    def prepare(
        cls,
        data: DataConfig,
        length: int,
        tokenizer: Tokenizer | None = None,
        splits: tuple[str, ...] = SPLITS,
    ) -> Text:
        """Read the corpus, cut it into pieces and pack them.

        Args:
            data: which corpus, and how it is cut.
            length: L, of a row.
            tokenizer: an existing one; by default it is made as ``data`` says, from the train
                split alone.
            splits: which are cut and packed.
        """
        corpus = load_corpus(data.source)
        if tokenizer is None:
            tokenizer = make_tokenizer(data.tokenizer, corpus.train)
        documents = {split: _pieces(corpus, split, tokenizer) for split in splits}
        rows = {split: pack(pieces, length) for split, pieces in documents.items()}
        return cls(corpus, tokenizer, documents, rows)

    def utf8_bytes(self, split: str) -> int:
        """The bytes of a split's documents."""
        return utf8_bytes(getattr(self.corpus, split))

    def hashes(self) -> dict[str, str]:
        """What a checkpoint must agree with."""
        return {"corpus": self.corpus.content_hash(), "tokenizer": self.tokenizer.content_hash()}


def _pieces(corpus: Any, split: str, tokenizer: Tokenizer) -> list[np.ndarray]:
    return [np.asarray(tokenizer.document(text), np.int32) for text in getattr(corpus, split)]
