"""Text to batches: corpora, tokenizers, packed rows, and the batch of a step. Knows no model."""

from cem_jax.data.ahead import ReadAhead
from cem_jax.data.byte_tokenizer import ByteTokenizer
from cem_jax.data.corpora import CORPORA, Corpus, builtin_corpus
from cem_jax.data.mixture import Mixture, open_prepared
from cem_jax.data.packing import Batch, PackedRows, Rows, pack
from cem_jax.data.pipeline import Pipeline
from cem_jax.data.prepared import PrepareConfig, PreparedCorpus, is_prepared, prepare
from cem_jax.data.sentencepiece_tokenizer import SentencePieceTokenizer
from cem_jax.data.sources import load_corpus
from cem_jax.data.text import printable, to_bytes
from cem_jax.data.tokenizer import Tokenizer, check_spec, load_tokenizer, make_tokenizer
from cem_jax.data.tokenizer_training import train_tokenizer

__all__ = [
    "CORPORA",
    "Batch",
    "ByteTokenizer",
    "Corpus",
    "Mixture",
    "PackedRows",
    "Pipeline",
    "PrepareConfig",
    "PreparedCorpus",
    "ReadAhead",
    "Rows",
    "SentencePieceTokenizer",
    "Tokenizer",
    "builtin_corpus",
    "check_spec",
    "is_prepared",
    "load_corpus",
    "load_tokenizer",
    "make_tokenizer",
    "open_prepared",
    "pack",
    "prepare",
    "printable",
    "to_bytes",
    "train_tokenizer",
]
