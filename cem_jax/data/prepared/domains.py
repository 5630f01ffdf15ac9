"""Domains: where the pieces of held-out rows come from, in shards beside those of the rows."""

from __future__ import annotations

import dataclasses
import functools
import zlib

import numpy as np
from jaxtyping import Int

from cem_jax.data.prepared.rows import PreparedRows
from cem_jax.data.prepared.tally import Counts

LABELLED = ("valid", "test")
"""The splits whose rows are labelled: figures by domain are of what is held out."""

LABELS = "<u4"
"""The numbers of a shard of labels: in place of each piece that of its domain."""


def label_of(domain: str) -> int:
    """A positive number of 31 bits that follows from the name: parts need not agree on a list."""
    return zlib.crc32(domain.encode("utf-8", "surrogatepass")) & 0x7FFFFFFF or 1


@dataclasses.dataclass(frozen=True)
class Domains:
    """The domains of the pieces of packed rows.

    Attributes:
        rows: as those of the pieces, with labels in place of pieces.
        counts: documents, bytes and targets of each domain, by name.
    """

    rows: PreparedRows
    counts: dict[str, Counts]

    @functools.cached_property
    def _labels(self) -> np.ndarray:
        labels = np.array([label_of(name) for name in self.counts])
        assert len(np.unique(labels)) == len(labels), "two domains have one label"
        return labels

    def of_targets(self, rows: slice) -> Int[np.ndarray, "B L"]:
        """The number of each target's domain in ``counts``; 0 where there is no target."""
        batch = self.rows.batch(rows)
        order = np.argsort(self._labels)
        found = order[np.searchsorted(self._labels[order], batch.targets) % len(order)]
        assert (self._labels[found] == batch.targets)[batch.mask].all(), "a domain without a name"
        return np.where(batch.mask, found, 0).astype(np.int32)

    def select(self, rows: slice) -> Domains:
        """Those of some of the rows."""
        return Domains(self.rows.select(rows), self.counts)

    def padded(self, multiple: int) -> Domains:
        """With empty rows at the end, up to a multiple."""
        return Domains(self.rows.padded(multiple), self.counts)
