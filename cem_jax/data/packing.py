"""Packed rows: documents laid end to end and cut, so that no document sees another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

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
    rows = -(-(len(tokens) - 1) // length)
    index = np.arange(rows)[:, None] * length + np.arange(length + 1)[None, :]
    inside = index < len(tokens)
    index = np.minimum(index, len(tokens) - 1)
    segment, position = _sites(owner[index], inside)
    return PackedRows(np.where(inside, tokens[index], 0), segment, position)


def _sites(
    owner: Int[np.ndarray, "N M"], inside: Bool[np.ndarray, "N M"]
) -> tuple[Int[np.ndarray, "N M"], Int[np.ndarray, "N M"]]:
    """Segments from 1 and positions from 0, of rows that say which document owns each piece."""
    starts = np.ones_like(inside)
    starts[:, 1:] = owner[:, 1:] != owner[:, :-1]
    column = np.broadcast_to(np.arange(owner.shape[1], dtype=np.int32), owner.shape)
    first = np.maximum.accumulate(np.where(starts, column, 0), axis=1)
    segment = np.where(inside, np.cumsum(starts, axis=1, dtype=np.int32), 0)
    position = np.where(inside, column - first, 0)
    return segment.astype(np.int32), position.astype(np.int32)
