"""Text to batches: corpora, tokenizers, packed rows, and the batch of a step. Knows no model."""

from cem_jax.data.corpora import CORPORA, Corpus, builtin_corpus
from cem_jax.data.packing import Batch, PackedRows, pack
from cem_jax.data.pipeline import Pipeline
from cem_jax.data.tokenizer import Tokenizer, train_tokenizer

__all__ = [
    "CORPORA",
    "Batch",
    "Corpus",
    "PackedRows",
    "Pipeline",
    "Tokenizer",
    "builtin_corpus",
    "pack",
    "train_tokenizer",
]
