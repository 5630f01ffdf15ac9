"""The training loss: nats per predicted token."""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float

from cem_jax.data.packing import Batch
from cem_jax.ops.cross_entropy import cross_entropy


def summed_loss(
    graph: nnx.GraphDef[Any], params: dict[str, Any], batch: Batch
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Nats and tokens of a batch, both summed over its mask.

    The loss is their quotient, taken once: rows, micro-batches and hosts then weigh as many
    tokens as they hold, whatever their documents and padding.

    Args:
        graph: of a model that maps ``(inputs, sites)`` to logits ``[B, L, V]``.
        params: its parameters.
        batch: rows.
    """
    logits = nnx.merge(graph, params)(batch.inputs, batch.sites)
    return cross_entropy(logits, batch.targets, batch.mask)
