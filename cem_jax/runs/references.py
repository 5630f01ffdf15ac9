"""What an n-gram model reaches on the same text, to set beside a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cem_jax.data import Corpus, make_tokenizer
from cem_jax.evaluation.kneser_ney import kneser_ney
from cem_jax.runs.text import Text

PIECES = 8192
"""The vocabulary of the stronger references: n-grams gain from longer pieces."""

MOST = 20_000_000
"""Pieces of training text up to which n-grams are counted, in memory."""


def references(text: Text) -> dict[str, dict[str, float]]:
    """Bits per byte of interpolated Kneser-Ney models on the test split, by vocabulary and order.

    Trained on the train split, discount 0.75; at the run's own vocabulary and at 8,192 pieces,
    where the text can fill them.

    Args:
        text: of the run.

    Returns:
        ``{"2048 pieces": {"1-gram": ..., "2-gram": ..., "3-gram": ...}, "8192 pieces": ...}``;
        empty for a text too large to count in memory, or prepared, of which only rows are left.
    """
    corpus = text.corpus
    if not isinstance(corpus, Corpus) or text.rows["train"].predicted > MOST:
        return {}
    own = {split: text.documents[split] for split in ("train", "test")}
    result = {_name(text.tokenizer): _orders(own, text.tokenizer.vocab_size, text)}
    if text.tokenizer.vocab_size != PIECES and (larger := _larger(corpus.train)) is not None:
        pieces = {
            split: [larger.document(each) for each in getattr(corpus, split)] for split in own
        }
        result[_name(larger)] = _orders(pieces, larger.vocab_size, text)
    return result


def _orders(pieces: dict[str, Any], vocab_size: int, text: Text) -> dict[str, float]:
    figures = kneser_ney(
        pieces["train"],
        pieces["test"],
        vocab_size=vocab_size,
        utf8_bytes=text.utf8_bytes("test"),
    )
    return {f"{order}-gram": each.bits_per_byte for order, each in figures.items()}


def _larger(documents: Sequence[str]) -> Any:
    try:
        return make_tokenizer(f"train:{PIECES}", documents)
    except ValueError:
        # The text is too small to fill so many pieces.
        return None


def _name(tokenizer: Any) -> str:
    return f"{tokenizer.vocab_size} pieces"
