"""The logical axis names of parameters, as a tree beside the dict of arrays."""

from __future__ import annotations

from typing import Any

from flax import nnx

from cem_jax.models.config import TransformerConfig
from cem_jax.models.transformer import Transformer

LAYER_AXIS = "N"
"""The axis of stacked blocks, in front of a block's own."""


def parameter_axes(config: TransformerConfig) -> dict[str, Any]:
    """A nested dict like the model's parameters, with strings such as ``"N D H K"``.

    Read from the abstract model: nothing is allocated. A parameter without names, as in an energy
    whose author gave none, is None: replicated.
    """
    abstract = nnx.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0)))
    return nnx.to_pure_dict(nnx.map_state(_axes, nnx.state(abstract, nnx.Param)))


def _axes(path: tuple[Any, ...], variable: nnx.Param) -> Any:
    axes = variable.get_metadata().get("axes")
    if axes is not None and path[0] == "blocks":
        axes = f"{LAYER_AXIS} {axes}".strip()
    return variable.replace(axes)
