"""Rules: the mesh axes that each logical axis of a parameter or an activation is spread over."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from jax.sharding import PartitionSpec

Table = Mapping[str, tuple[str, ...]]
"""Mesh axes by the name of a logical axis; one that is not there is on every device."""


@dataclasses.dataclass(frozen=True)
class Rules:
    """Two tables, since one could not serve both: FSDP would name its axis twice.

    A weight ``"D H K"`` is spread by D over fsdp, an activation ``"B L D"`` by B: the weight is
    gathered where the two meet, and no contraction is spread over fsdp.

    Attributes:
        parameters: for weights and their moments.
        activations: for what is computed.
    """

    parameters: Table
    activations: Table

    def parameter(self, axes: str | None) -> PartitionSpec:
        """The spec of a parameter with these logical axes; None is on every device."""
        return _spec("parameter", axes or "", self.parameters)

    def activation(self, axes: str) -> PartitionSpec:
        """The spec of an activation with these logical axes."""
        return _spec("activation", axes, self.activations)


def _spec(kind: str, axes: str, table: Table) -> PartitionSpec:
    """The spec, none of whose mesh axes is named twice."""
    placed = [table.get(name, ()) for name in axes.split()]
    used = [axis for each in placed for axis in each]
    spec = PartitionSpec(*(each or None for each in placed))
    if twice := sorted({axis for axis in used if used.count(axis) > 1}):
        raise ValueError(
            f"rules: got a {kind} with the axes {axes!r}, which the rules place as {spec}, "
            f"expected each mesh axis at most once, and {twice[0]!r} is there twice; give one of "
            f"the axes another name, or another rule."
        )
    return spec


RULES = Rules(
    parameters=MappingProxyType(
        {"D": ("fsdp",), **dict.fromkeys(("H", "G", "F", "M", "V"), ("tensor",))}
    ),
    activations=MappingProxyType(
        {
            "B": ("data", "fsdp"),
            "L": ("context",),
            **dict.fromkeys(("H", "G", "F", "M", "V"), ("tensor",)),
        }
    ),
)
"""What every layout uses: the shape of the mesh says which of these axes divide anything. Positions
of the context, S, are on every device: keys are gathered, queries are not."""
