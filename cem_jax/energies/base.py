"""The contract of an energy: what of the context it needs, and its value per position."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from flax import nnx
from jaxtyping import Array, Float

from cem_jax.ops.visibility import Sites

Context = Any
"""A pytree: all that depends on the context alone, computed once for all inner steps."""


class Energy(nnx.Module):
    """eps(u_i | c_{1:i}), a conditional energy of each position; equation (1).

    A subclass holds parameters only: it is read-only in application and keeps no mutable state,
    so that `jax.grad` of it can be taken inside `jax.lax.scan`. Nothing in it knows how it is
    minimised. Its weights follow the dtype of their input.
    """

    def condition(self, c: Float[Array, "B S D"], sites: Sites) -> Context:
        """Everything that depends on the context alone; nothing, by default.

        Args:
            c: ``[B, S, D]``, the normed input of the layer, constant over the inner steps.
            sites: positions and segments, of the context and of the queries alike.

        Returns:
            A pytree of arrays, handed to every call.
        """
        return ()

    def __call__(self, u: Float[Array, "B L D"], context: Context) -> Float[Array, "B L"]:
        """The energy of each position, in float32 or wider.

        Args:
            u: ``[B, L, D]``, the variable, in the compute dtype: sum in
                `accumulation_dtype(u)`. Position i's energy may depend on ``u_i`` only; what it
                needs of other positions comes through ``context``.
            context: what `condition` returned.
        """
        raise ValueError(
            f"{type(self).__name__}: got no __call__(u, context), expected one that returns the "
            f"energy of each position, [B, L]; define it in the subclass."
        )


@runtime_checkable
class EnergyConfig(Protocol):
    """A frozen description of an energy, which builds it for a model width."""

    def build(self, dim: int, *, rngs: nnx.Rngs) -> Energy:
        """The energy with fresh parameters."""
        ...


@dataclasses.dataclass(frozen=True)
class EnergyOf:
    """An energy class as a config, for one that needs no options.

    Attributes:
        factory: makes the energy, as ``factory(dim, rngs=rngs)``.
    """

    factory: Callable[..., Energy]

    def build(self, dim: int, *, rngs: nnx.Rngs) -> Energy:
        """The energy with fresh parameters."""
        return self.factory(dim, rngs=rngs)


def require_energy_config(name: str, config: Any) -> None:
    """Refuse what does not build an energy, such as an energy itself, a class or a name."""
    if isinstance(config, type) or not isinstance(config, EnergyConfig):
        raise ValueError(
            f"{name}: got {config!r}, expected the config of an energy, with build(dim, *, rngs), "
            f"such as InteractionConfig(heads=4), or EnergyOf(YourEnergy)."
        )
