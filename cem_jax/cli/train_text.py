"""The corpus as a model sees it: a tokenizer and packed rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from cem_jax.data import Corpus, PackedRows, Tokenizer, pack, train_tokenizer
from cem_jax.data.corpora import utf8_bytes


@dataclasses.dataclass(frozen=True)
class Text:
    """A corpus, the tokenizer of its train split, and the rows of its three splits."""

    corpus: Corpus
    tokenizer: Tokenizer
    train: PackedRows
    valid: PackedRows
    test: PackedRows

    @classmethod
    def prepare(cls, corpus: Corpus, vocabulary: int, length: int) -> Text:
        """Train the tokenizer on the train split and pack all three."""
        tokenizer = train_tokenizer(corpus.train, vocabulary)

        def packed(documents: Sequence[str]) -> PackedRows:
            return pack((tokenizer.document(text) for text in documents), length)

        splits = (corpus.train, corpus.valid, corpus.test)
        return cls(corpus, tokenizer, *(packed(documents) for documents in splits))

    def utf8_bytes(self, split: str) -> int:
        """The bytes of a split's documents."""
        return utf8_bytes(getattr(self.corpus, split))

    def hashes(self) -> dict[str, str]:
        """What a checkpoint must agree with."""
        return {"corpus": self.corpus.content_hash(), "tokenizer": self.tokenizer.content_hash()}
