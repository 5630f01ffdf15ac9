"""What a model reached on text: loss, perplexity, bits per byte."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from cem_jax.data.packing import Batch, Rows
from cem_jax.ops.constrain import constrain


@dataclasses.dataclass(frozen=True)
class Perplexity:
    """The figures of a model on documents.

    Attributes:
        nats: of all predicted tokens together, document ends included.
        tokens: how many there are.
        utf8_bytes: of the documents, separators not counted.
    """

    nats: float
    tokens: int
    utf8_bytes: int

    @property
    def loss(self) -> float:
        """Nats per token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """exp(loss); infinite where that overflows."""
        return math.exp(self.loss) if self.loss < 700 else math.inf

    @property
    def bits_per_byte(self) -> float:
        """nats / ln 2 / bytes: it does not depend on the tokenizer."""
        return self.nats / math.log(2) / self.utf8_bytes


RowNats = Callable[..., Float[Array, "..."]]
"""See `make_row_nats`."""


def make_row_nats(
    graph: nnx.GraphDef[Any],
    scope: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> RowNats:
    """The jitted map (params, batch) -> summed nats of each row ``[B]``.

    With ``labels [B, L]`` in 0 ... N - 1 and ``count`` = N it sums those of each label apart:
    ``[B, N]``.

    Args:
        graph: of the model.
        scope: in which it is traced, such as `sharding.Layout.scope`.
    """

    def row_nats(
        params: dict[str, Any],
        batch: Batch,
        labels: Int[Array, "B L"] | None = None,
        count: int = 1,
    ) -> Float[Array, "..."]:
        model = nnx.merge(graph, params)
        with scope():
            nats = model.nats(batch.inputs, batch.targets, batch.mask, batch.sites)
            # Whole on every device: each process reads them.
            if labels is None:
                return constrain(jnp.sum(nats, axis=1), "rows")
            # No product with one-hot vectors: those are of low precision on accelerators.
            apart = (jnp.where(labels == label, nats, 0) for label in range(count))
            sums = jnp.stack([jnp.sum(each, axis=1) for each in apart], axis=1)
            return constrain(sums, "rows labels")

    return jax.jit(row_nats, static_argnames="count")


def perplexity(
    row_nats: RowNats,
    params: dict[str, Any],
    rows: Rows,
    *,
    batch: int,
    utf8_bytes: int,
) -> Perplexity:
    """The figures of the documents that the rows hold, each token with equal weight.

    Args:
        row_nats: see `make_row_nats`.
        params: of the model.
        rows: all of the packed documents.
        batch: how many rows are evaluated at a time; the figures do not depend on it.
        utf8_bytes: of the documents, see `data.corpora.utf8_bytes`.
    """
    nats, tokens = total_nats(row_nats, params, rows, batch=batch)
    return Perplexity(nats, tokens, utf8_bytes)


def total_nats(
    row_nats: RowNats, params: dict[str, Any], rows: Rows, *, batch: int
) -> tuple[float, int]:
    """Nats and tokens of any rows, summed.

    The last batch is filled with empty rows, and rows are added in their order, in float64.

    Args:
        row_nats: see `make_row_nats`.
        params: of the model.
        rows: packed documents, or some rows of them.
        batch: how many rows are evaluated at a time, at least 1.
    """
    if batch < 1:
        raise ValueError(f"batch: got {batch}, expected at least 1.")
    padded = rows.padded(batch)
    # Each is read before the next begins: two programs at once may send in another order in
    # another process, and each waits for the other's for ever.
    pieces = [
        np.asarray(row_nats(params, padded.batch(slice(start, start + batch))), np.float64)
        for start in range(0, len(padded), batch)
    ]
    nats = np.concatenate(pieces)
    return float(nats.sum()), rows.predicted
