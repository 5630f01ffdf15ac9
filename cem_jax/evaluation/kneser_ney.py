"""The n-gram reference: interpolated Kneser-Ney of orders 1, 2 and 3, counted by sorting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from cem_jax.evaluation.perplexity import Perplexity

ORDERS = 3

Documents = Iterable[Sequence[int] | np.ndarray]


def kneser_ney(
    train: Documents,
    held_out: Documents,
    *,
    vocab_size: int,
    utf8_bytes: int,
    discount: float = 0.75,
) -> dict[int, Perplexity]:
    """The figures of each order 1, 2, 3, to set beside a model's `perplexity.perplexity`.

    Args:
        train: see `kneser_ney_token_nats`, as are `vocab_size` and `discount`.
        held_out: the documents that the figures are of.
        vocab_size: V.
        utf8_bytes: of the held-out documents, see `data.corpora.utf8_bytes`.
        discount: D.

    Raises:
        ValueError: see `kneser_ney_token_nats`.
    """
    nats = kneser_ney_token_nats(train, held_out, vocab_size=vocab_size, discount=discount)
    return {
        order: Perplexity(float(each.sum()), each.size, utf8_bytes) for order, each in nats.items()
    }


def kneser_ney_token_nats(
    train: Documents, held_out: Documents, *, vocab_size: int, discount: float = 0.75
) -> dict[int, Float[np.ndarray, "N"]]:
    """-ln p of each predicted piece under interpolated Kneser-Ney models of orders 1, 2 and 3.

    A model of order n predicts the piece w after the history h, the n - 1 pieces before it, by

        p_n(w | h) = (max(c(h, w) - D, 0) + D N(h) p_(n-1)(w | h')) / C(h),    p_0(w) = 1 / V,

    where C(h) = sum_w c(h, w), N(h) is the number of different w seen after h, and h' is h without
    its first piece; where h was never seen, p_n(w | h) = p_(n-1)(w | h'). At the model's own order
    c counts occurrences; below it c(h', w) counts the different pieces seen before (h', w). So the
    unigram model reads occurrences, and the unigrams below a bigram or trigram model do not.

    Every piece after the BOS is predicted, EOS included. No n-gram crosses a document: before its
    first piece stand copies of its BOS. No probability is zero, and over the V ids they sum to 1.

    Args:
        train: pieces of each document, BOS and EOS included, as ids in [0, V); lists or arrays.
        held_out: likewise; N is the number of their pieces without the BOS of each.
        vocab_size: V, with V^3 < 2^63.
        discount: D, in (0, 1), the same at every order.

    Returns:
        For each order 1, 2, 3 its ``[N]`` nats, float64, as the documents have the pieces.

    Raises:
        ValueError: there are no documents, one is shorter than BOS and EOS, they do not all begin
            with the same piece, or an id, the vocabulary or the discount is out of range.

    Sources:
        Kneser & Ney, ICASSP 1995, for continuation counts; Chen & Goodman, Computer Speech and
        Language 13 (1999), for the interpolated form.
    """
    v = int(vocab_size)  # The powers of a NumPy integer could overflow.
    if v < 1 or v**ORDERS > np.iinfo(np.int64).max:
        raise ValueError(
            f"vocab_size: got {v}, expected 1 to 2097151, so that a trigram fits in 64 bits; "
            f"encode the documents with a tokenizer of fewer pieces."
        )
    if not 0 < discount < 1:
        raise ValueError(
            f"discount: got {discount}, expected more than 0 and less than 1; leave it at 0.75."
        )
    tables = [_count(keys, v) for keys in _grams("train", train, v)]
    # An n-gram that was seen counts once for the (n - 1)-gram that it ends in.
    continuation = [_count(table.keys % v**n, v) for n, table in enumerate(tables) if n > 0]
    grams = _grams("held_out", held_out, v)
    lower = np.full(grams[0].shape, 1 / v)
    nats = {}
    for n, keys in enumerate(grams):
        nats[n + 1] = -np.log(_interpolate(tables[n], keys, lower, v, discount))
        if n < ORDERS - 1:
            lower = _interpolate(continuation[n], keys, lower, v, discount)
    return nats


class _Table(NamedTuple):
    """The n-grams of one order: as numbers in base V whose last digit is w, ascending."""

    keys: Int[np.ndarray, "G"]
    counts: Int[np.ndarray, "G"]  # c(h, w)
    histories: Int[np.ndarray, "H"]  # h = key // V, so 0 for a unigram
    totals: Int[np.ndarray, "H"]  # C(h)
    kinds: Int[np.ndarray, "H"]  # N(h)


def _count(grams: Int[np.ndarray, "N"], v: int) -> _Table:
    keys, counts = np.unique(grams, return_counts=True)
    histories, first, kinds = np.unique(keys // v, return_index=True, return_counts=True)
    # The keys of one history lie together, for w is the last digit.
    return _Table(keys, counts, histories, np.add.reduceat(counts, first), kinds)


def _interpolate(
    table: _Table,
    keys: Int[np.ndarray, "N"],
    lower: Float[np.ndarray, "N"],
    v: int,
    discount: float,
) -> Float[np.ndarray, "N"]:
    """p_n(w | h) of each key, from p_(n-1)(w | h')."""
    place, seen = _find(table.keys, keys)
    discounted = np.where(seen, table.counts[place] - discount, 0)
    place, seen = _find(table.histories, keys // v)
    mass = discounted + discount * table.kinds[place] * lower
    return np.where(seen, mass / table.totals[place], lower)


def _find(
    ascending: Int[np.ndarray, "G"], wanted: Int[np.ndarray, "N"]
) -> tuple[Int[np.ndarray, "N"], np.ndarray]:
    """Where each wanted number is, and whether it is there at all."""
    place = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return place, ascending[place] == wanted


def _grams(name: str, documents: Documents, v: int) -> list[Int[np.ndarray, "N"]]:
    """The keys of the 1-, 2- and 3-grams that end in each predicted piece."""
    ids, lengths = _end_to_end(name, documents, v)
    starts = np.cumsum(lengths) - lengths
    predicted = np.delete(np.arange(len(ids)), starts)
    start = np.repeat(starts, lengths - 1)
    keys, grams = np.zeros(len(predicted), np.int64), []
    for n in range(ORDERS):
        # The BOS also stands before itself, as often as a history needs it.
        keys = keys + ids[np.maximum(predicted - n, start)] * v**n
        grams.append(keys)
    return grams


def _end_to_end(
    name: str, documents: Documents, v: int
) -> tuple[Int[np.ndarray, "M"], Int[np.ndarray, "documents"]]:
    """The ids of all documents, and how many each has."""
    arrays = [np.asarray(document) for document in documents]
    shortest = min((array.size for array in arrays), default=None)
    if shortest is None or shortest < 2:
        what = "none" if shortest is None else f"one of {shortest} ids"
        raise ValueError(
            f"{name}: got {what}, expected documents of at least BOS and EOS; encode texts with "
            f"Tokenizer.document."
        )
    ids = np.concatenate(arrays)
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= v:
        raise ValueError(
            f"{name}: got {ids.ndim}-dimensional {ids.dtype} documents with values from "
            f"{ids.min()} to {ids.max()}, expected integer ids from 0 to {v - 1} in one dimension; "
            f"give the vocab_size of the tokenizer that encoded the documents."
        )
    first = sorted({int(array[0]) for array in arrays})
    if len(first) > 1:
        raise ValueError(
            f"{name}: got documents that begin with the ids {first[:5]}, expected the same BOS in "
            f"all; encode texts with Tokenizer.document."
        )
    return ids.astype(np.int64), np.asarray([len(array) for array in arrays])
