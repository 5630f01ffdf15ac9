"""The training loss: nats per predicted token."""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float

from cem_jax.data.packing import Batch


def summed_loss(
    graph: nnx.GraphDef[Any], params: dict[str, Any], batch: Batch
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Nats and tokens of a batch, both summed over its mask.

    The loss is their quotient, taken once: rows, micro-batches and hosts then weigh as many
    tokens as they hold, whatever their documents and padding.

    Args:
        graph: of a `Transformer`, or another model with its ``cross_entropy``.
        params: its parameters.
        batch: rows.
    """
    model = nnx.merge(graph, params)
    return model.cross_entropy(batch.inputs, batch.targets, batch.mask, batch.sites)
