"""Packed rows: documents laid end to end and cut, so that no document sees another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Bool, Int

from cem_jax.ops.visibility import Sites


class Batch(NamedTuple):
    """Rows as a model takes them; a pytree, of NumPy's arrays until a jitted function takes it.

    Attributes:
        inputs: ``[B, L]``, pieces.
        targets: ``[B, L]``, the piece after each input.
        mask: ``[B, L]``, true where input and target are of one document.
        sites: positions and segments of the inputs.
    """

    inputs: Int[Array, "B L"]
    targets: Int[Array, "B L"]
    mask: Bool[Array, "B L"]
    sites: Sites


@runtime_checkable
class Rows(Protocol):
    """Packed rows, in memory (`PackedRows`) or in shards on disk (`prepared.rows.PreparedRows`)."""

    def __len__(self) -> int:
        """N, how many there are."""

    @property
    def length(self) -> int:
        """L, the number of inputs in a row."""

    @property
    def predicted(self) -> int:
        """How many targets the rows hold: every piece but the BOS of each document."""

    def batch(self, rows: slice | Sequence[int] | np.ndarray) -> Batch:
        """The chosen rows as inputs and targets."""

    def select(self, rows: slice) -> Rows:
        """Some of the rows."""

    def padded(self, multiple: int) -> Rows:
        """With empty rows at the end, up to a multiple; an empty row predicts nothing."""

    def where(self, number: int) -> str:
        """Where a row lies, for a message."""


@dataclasses.dataclass(frozen=True)
class PackedRows:
    """N rows of L + 1 pieces; a row's last piece is the first of the next row.

    Attributes:
        tokens: ``[N, L + 1]``, int32, zero where there is no document.
        segment: ``[N, L + 1]``, the document's number within the row, from 1; zero is padding.
        position: ``[N, L + 1]``, from 0 in each segment.
    """

    tokens: np.ndarray
    segment: np.ndarray
    position: np.ndarray

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def length(self) -> int:
        """L, the number of inputs in a row."""
        return int(self.tokens.shape[1]) - 1

    @property
    def predicted(self) -> int:
        """How many targets the rows hold: every piece but the BOS of each document."""
        return int(self.batch(slice(None)).mask.sum())

    def batch(self, rows: slice | Sequence[int] | np.ndarray) -> Batch:
        """The chosen rows as inputs and targets."""
        tokens: Any = self.tokens[rows]
        segment: Any = self.segment[rows]
        position: Any = self.position[rows]
        before, after = segment[:, :-1], segment[:, 1:]
        # The BOS of the next document is no target: nothing in this one says what follows.
        mask = (before == after) & (before != 0)
        return Batch(tokens[:, :-1], tokens[:, 1:], mask, Sites(position[:, :-1], before))

    def select(self, rows: slice) -> PackedRows:
        """Some of the rows."""
        return PackedRows(self.tokens[rows], self.segment[rows], self.position[rows])

    def padded(self, multiple: int) -> PackedRows:
        """With empty rows at the end, up to a multiple; an empty row predicts nothing."""
        pad = ((0, -len(self) % multiple), (0, 0))
        return PackedRows(*(np.pad(x, pad) for x in (self.tokens, self.segment, self.position)))

    def where(self, number: int) -> str:
        """Where a row lies: its number."""
        return str(number)


def pack(documents: Iterable[Sequence[int] | np.ndarray], length: int) -> PackedRows:
    """Lay the documents end to end and cut rows of ``length + 1`` pieces every ``length`` pieces.

    The overlap of one makes every piece after a BOS a target exactly once. The last row is padded.

    Args:
        documents: pieces of each, BOS and EOS included.
        length: L, at least 1.

    Raises:
        ValueError: there is nothing to predict.
    """
    if length < 1:
        raise ValueError(f"length: got {length}, expected at least 1.")
    arrays = [np.asarray(document, np.int32) for document in documents]
    tokens = np.concatenate(arrays) if arrays else np.zeros(0, np.int32)
    if len(tokens) < 2:
        raise ValueError(
            f"documents: got {len(tokens)} pieces in all, expected at least 2: one to predict from "
            f"and one to predict."
        )
    owner = np.repeat(np.arange(len(arrays), dtype=np.int32), [len(array) for array in arrays])
    return cut_rows(tokens, owner, length)


def cut_rows(tokens: Int[np.ndarray, "M"], owner: Int[np.ndarray, "M"], length: int) -> PackedRows:
    """Rows of ``length + 1`` pieces, one every ``length`` pieces; the last is padded.

    Args:
        tokens: at least 2, documents end to end.
        owner: the number of the document that each is of.
        length: L.
    """
    rows = -(-(len(tokens) - 1) // length)
    index = np.arange(rows)[:, None] * length + np.arange(length + 1)[None, :]
    inside = index < len(tokens)
    index = np.minimum(index, len(tokens) - 1)
    segment = _segments(owner[index], inside)
    return PackedRows(np.where(inside, tokens[index], 0), segment, positions(segment))


def positions(segment: Int[np.ndarray, "N M"]) -> Int[np.ndarray, "N M"]:
    """Positions from 0 in each segment of a row, and 0 in padding."""
    starts = np.ones(segment.shape, bool)
    starts[:, 1:] = segment[:, 1:] != segment[:, :-1]
    column = np.broadcast_to(np.arange(segment.shape[1], dtype=np.int32), segment.shape)
    first = np.maximum.accumulate(np.where(starts, column, 0), axis=1)
    return np.where(segment > 0, column - first, 0).astype(np.int32)


def _segments(
    owner: Int[np.ndarray, "N M"], inside: Bool[np.ndarray, "N M"]
) -> Int[np.ndarray, "N M"]:
    """Segments from 1, of rows that say which document owns each piece."""
    starts = np.ones_like(inside)
    starts[:, 1:] = owner[:, 1:] != owner[:, :-1]
    return np.where(inside, np.cumsum(starts, axis=1, dtype=np.int32), 0).astype(np.int32)
