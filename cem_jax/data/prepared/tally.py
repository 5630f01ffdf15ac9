"""Tallies: what was counted on the way, of one shard's files or of all."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from cem_jax.data.prepared.documents import Broken

EXAMPLES = 20
"""Broken lines and files that are named, at most; all are counted."""


@dataclasses.dataclass
class Counts:
    """Documents, their bytes in UTF-8, and the targets that they make.

    Attributes:
        documents: how many.
        bytes: of their texts.
        targets: pieces that are predicted: all but each BOS.
    """

    documents: int = 0
    bytes: int = 0
    targets: int = 0

    def __add__(self, other: Counts) -> Counts:
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return Counts(*(a + b for a, b in pairs))


@dataclasses.dataclass
class Tally:
    """What was taken and what was not.

    Attributes:
        taken: by split and by domain.
        left_out: documents of domains that were not asked for, by domain.
        empty: documents without text.
        lines: that were skipped, as they could not be read.
        files: that were skipped from where they could not be read.
        examples: of both, the first ones.
    """

    taken: dict[str, dict[str, Counts]] = dataclasses.field(default_factory=dict)
    left_out: dict[str, int] = dataclasses.field(default_factory=dict)
    empty: int = 0
    lines: int = 0
    files: int = 0
    examples: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def take(self, split: str, domain: str, counts: Counts) -> None:
        """Count documents of a split and a domain."""
        domains = self.taken.setdefault(split, {})
        domains[domain] = domains.get(domain, Counts()) + counts

    def leave_out(self, domain: str, documents: int = 1) -> None:
        """Count documents of a domain that was not asked for."""
        self.left_out[domain] = self.left_out.get(domain, 0) + documents

    def skip(self, broken: Broken) -> None:
        """Count a line or a file that could not be read."""
        if broken.line is None:
            self.files += 1
        else:
            self.lines += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(broken._asdict())

    def add(self, other: Tally) -> None:
        """Count all that another has counted."""
        for split, domains in other.taken.items():
            for domain, counts in domains.items():
                self.take(split, domain, counts)
        self.left_out = dict(Counter(self.left_out) + Counter(other.left_out))
        self.empty += other.empty
        self.lines += other.lines
        self.files += other.files
        self.examples = (self.examples + other.examples)[:EXAMPLES]

    def total(self, split: str) -> Counts:
        """Of all domains of a split."""
        return sum(self.taken.get(split, {}).values(), Counts())

    @classmethod
    def from_json(cls, described: dict[str, Any]) -> Tally:
        """What `dataclasses.asdict` made."""
        taken = {
            split: {domain: Counts(**counts) for domain, counts in domains.items()}
            for split, domains in described["taken"].items()
        }
        return cls(**{**described, "taken": taken})
