"""Packers: documents to rows, as they come, in bounded memory.

In both every piece after a BOS is a target exactly once, and no segment has two documents.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

import numpy as np

from cem_jax.data.packing import PackedRows, cut_rows, positions
from cem_jax.data.prepared.config import Packing

WINDOW = 1 << 22
"""The pieces that are held before rows are made of them."""


class ConcatSplit:
    """Documents end to end, a row every L pieces: those of `cem_jax.data.pack`.

    No place is empty, and a document that a row's end cuts goes on in the next row without what
    was before.

    Args:
        length: L.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._held: list[np.ndarray] = []
        self._size = 0
        # Where a document that was cut goes on, its owner is another: rows only see changes.
        self._most = max(WINDOW, length + 1)

    def add(self, pieces: np.ndarray) -> Iterator[PackedRows]:
        """Take a document, BOS and EOS included; full rows when enough are held."""
        self._held.append(pieces)
        self._size += len(pieces)
        if self._size > self._most:
            used = (self._size - 1) // self._length * self._length
            tokens, owner = self._joined()
            yield cut_rows(tokens[: used + 1], owner[: used + 1], self._length)
            # The overlap of one, then what no row has yet.
            bounds = np.flatnonzero(np.diff(owner[used:])) + 1
            self._held = [part.copy() for part in np.split(tokens[used:], bounds)]
            self._size = len(tokens) - used

    def finish(self) -> Iterator[PackedRows]:
        """The rest; the last row is padded."""
        if self._size > 1:
            yield cut_rows(*self._joined(), self._length)
        self._held, self._size = [], 0

    def _joined(self) -> tuple[np.ndarray, np.ndarray]:
        sizes = [len(part) for part in self._held]
        owner = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        return np.concatenate(self._held), owner


class BestFit:
    """Each document whole in one row where it fits, in the row that it fills best.

    Documents of more than L + 1 pieces are cut there, with an overlap of one. What is held is then
    placed in decreasing length, each in the row with the least room that takes it, or a new one
    (Ding et al., "Fewer Truncations Improve Language Modeling", arXiv 2404.10830, 2024).

    Args:
        length: L.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._held: list[np.ndarray] = []
        self._size = 0

    def add(self, pieces: np.ndarray) -> Iterator[PackedRows]:
        """Take a document, BOS and EOS included; rows when enough are held."""
        for start in range(0, len(pieces) - 1, self._length):
            self._held.append(pieces[start : start + self._length + 1])
        self._size += len(pieces)
        if self._size > WINDOW:
            yield from self.finish()

    def finish(self) -> Iterator[PackedRows]:
        """Rows of all that is held; what room is left in them is padding."""
        if self._held:
            held, self._held, self._size = self._held, [], 0
            width = self._length + 1
            yield _laid(held, best_fit([len(part) for part in held], width), width)


def make_packer(packing: Packing, length: int) -> ConcatSplit | BestFit:
    """The packer of that name, for rows of L = ``length``."""
    return ConcatSplit(length) if packing == "concat-split" else BestFit(length)


def best_fit(sizes: list[int], capacity: int) -> list[list[int]]:
    """Which parts each row holds, by best-fit decreasing.

    Args:
        sizes: of the parts, 1 to ``capacity``.
        capacity: of a row.
    """
    rows: list[list[int]] = []
    by_room: dict[int, list[int]] = {}
    # The rooms that some row has, sorted: at most as many as there are numbers up to the capacity.
    rooms: list[int] = []
    for part in sorted(range(len(sizes)), key=lambda part: -sizes[part]):
        place = bisect.bisect_left(rooms, sizes[part])
        if place < len(rooms):
            room = rooms[place]
            row = by_room[room].pop()
            if not by_room[room]:
                del rooms[place]
        else:
            row, room = len(rows), capacity
            rows.append([])
        rows[row].append(part)
        if left := room - sizes[part]:
            if not by_room.setdefault(left, []):
                bisect.insort(rooms, left)
            by_room[left].append(row)
    return rows


def _laid(parts: list[np.ndarray], rows: list[list[int]], width: int) -> PackedRows:
    tokens, segment = np.zeros((2, len(rows), width), np.int32)
    for row, numbers in enumerate(rows):
        start = 0
        for label, number in enumerate(numbers, 1):
            end = start + len(parts[number])
            tokens[row, start:end], segment[row, start:end] = parts[number], label
            start = end
    return PackedRows(tokens, segment, positions(segment))
