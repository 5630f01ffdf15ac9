"""What a model reached on the domains of a text, in one pass with the whole of it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cem_jax.data.packing import Rows
from cem_jax.data.prepared import Domains
from cem_jax.evaluation.perplexity import RowNats


class ByDomain(NamedTuple):
    """Sums over some rows, by domain.

    Attributes:
        nats: of the predicted tokens, by the name of the domain.
        tokens: how many there are.
    """

    nats: dict[str, float]
    tokens: dict[str, int]

    def bits_per_byte(self, domains: Domains) -> dict[str, float]:
        """nats / tokens / ln 2 * targets / bytes, of each domain that has a token here.

        Targets and bytes are those of all its documents, so that some rows of them will do; where
        all are here it is nats / ln 2 / bytes.
        """
        return {
            name: self.nats[name]
            / math.log(2)
            / counts.bytes
            * (counts.targets / self.tokens[name])
            for name, counts in domains.counts.items()
            if self.tokens[name] and counts.bytes
        }


def by_domain(
    row_nats: RowNats, params: dict[str, Any], rows: Rows, domains: Domains, *, batch: int
) -> ByDomain:
    """Nats and tokens of any rows by domain; the sum over domains is that of the rows.

    Args:
        row_nats: see `make_row_nats`.
        params: of the model.
        rows: packed documents, or some rows of them.
        domains: of these rows.
        batch: how many rows are evaluated at a time, at least 1.
    """
    rows, domains, count = rows.padded(batch), domains.padded(batch), len(domains.counts)
    nats, tokens = np.zeros(count), np.zeros(count, np.int64)
    for start in range(0, len(rows), batch):
        part = slice(start, start + batch)
        chosen, labels = rows.batch(part), domains.of_targets(part)
        found = row_nats(params, chosen, labels, count=count)
        nats += np.asarray(found, np.float64).sum(axis=0)
        tokens += np.bincount(labels[np.asarray(chosen.mask)], minlength=count)
    names = list(domains.counts)
    return ByDomain(
        dict(zip(names, nats.tolist(), strict=True)), dict(zip(names, tokens.tolist(), strict=True))
    )
