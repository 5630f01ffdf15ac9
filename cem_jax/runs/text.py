"""The text of a run as a model sees it: a tokenizer and packed rows."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from cem_jax.data import (
    Corpus,
    Mixture,
    PreparedCorpus,
    Rows,
    Tokenizer,
    load_corpus,
    make_tokenizer,
    open_prepared,
    pack,
)
from cem_jax.data.prepared import Domains
from cem_jax.data.tokenizer import TRAIN
from cem_jax.runs.config import DataConfig

SPLITS = ("train", "valid", "test")


class TextPart(NamedTuple):
    """A split of one source.

    Attributes:
        rows: packed.
        utf8_bytes: of its documents.
        domains: of the pieces; None where the text has none, or does not say.
    """

    rows: Rows
    utf8_bytes: int
    domains: Domains | None


@dataclasses.dataclass(frozen=True)
class Text:
    """A corpus, a tokenizer, and the pieces of the three splits.

    Attributes:
        corpus: the documents, or the folder that they were prepared in, or a mixture of some.
        tokenizer: makes pieces of them.
        documents: for each of these splits the pieces of each document, BOS and EOS included;
            none where they were prepared.
        rows: for each of these splits the packed rows.
    """

    corpus: Corpus | PreparedCorpus | Mixture
    tokenizer: Tokenizer
    documents: dict[str, list[np.ndarray]]
    rows: dict[str, Rows]

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

        Raises:
            ValueError: there is no such text, or it was prepared for another length or tokenizer.
        """
        if (prepared := open_prepared(data.source)) is not None:
            return cls._prepared(prepared, data, length, tokenizer, splits)
        corpus = load_corpus(data.source)
        if tokenizer is None:
            tokenizer = make_tokenizer(data.tokenizer, corpus.train)
        documents = {split: _pieces(corpus, split, tokenizer) for split in splits}
        rows: dict[str, Rows] = {split: pack(pieces, length) for split, pieces in documents.items()}
        return cls(corpus, tokenizer, documents, rows)

    @classmethod
    def _prepared(
        cls,
        corpus: PreparedCorpus | Mixture,
        data: DataConfig,
        length: int,
        tokenizer: Tokenizer | None,
        splits: tuple[str, ...],
    ) -> Text:
        """Of rows that are there already."""
        if tokenizer is None:
            tokenizer = corpus.tokenizer
            # One that is to be trained would be trained on text that is not there.
            if not data.tokenizer.startswith(TRAIN):
                tokenizer = make_tokenizer(data.tokenizer, ())
            elif data.tokenizer != corpus.tokenizer_spec:
                raise ValueError(
                    f"tokenizer: got {data.tokenizer} for {data.source}, which was prepared with "
                    f"{corpus.tokenizer_spec}, expected its own; leave --tokenizer out, or prepare "
                    f"the text again."
                )
        corpus.require(length, tokenizer)
        return cls(corpus, tokenizer, {}, {split: corpus.rows(split) for split in splits})

    def utf8_bytes(self, split: str) -> int:
        """The bytes of a split's documents."""
        return self.corpus.utf8_bytes(split)

    def parts(self, split: str) -> dict[str, TextPart]:
        """A split by source; under its own name where there is one source."""
        corpus = self.corpus
        if isinstance(corpus, Mixture):
            sources = {name: source.corpus for name, source in corpus.sources.items()}
            return {
                name: TextPart(one.rows(split), one.utf8_bytes(split), one.domains(split))
                for name, one in sources.items()
            }
        domains = corpus.domains(split) if isinstance(corpus, PreparedCorpus) else None
        return {corpus.name: TextPart(self.rows[split], self.utf8_bytes(split), domains)}

    def hashes(self) -> dict[str, Any]:
        """What a checkpoint must agree with."""
        corpus = self.corpus
        mixture = {"mixture": corpus.identity()} if isinstance(corpus, Mixture) else {}
        own = {"corpus": self.corpus.content_hash(), "tokenizer": self.tokenizer.content_hash()}
        return {**mixture, **own}


def corpus_hash(source: str) -> str:
    """`Text.hashes` of the corpus alone, without a tokenizer."""
    return (open_prepared(source) or load_corpus(source)).content_hash()


def _pieces(corpus: Any, split: str, tokenizer: Tokenizer) -> list[np.ndarray]:
    return [np.asarray(tokenizer.document(text), np.int32) for text in getattr(corpus, split)]
