"""A sum of energies."""

from __future__ import annotations

import dataclasses

from flax import nnx
from jaxtyping import Array, Float

from cem_jax.energies.base import Context, Energy, EnergyConfig, require_energy_config
from cem_jax.ops.visibility import Sites


@dataclasses.dataclass(frozen=True)
class SumConfig:
    """The energies that are added, at least one."""

    terms: tuple[EnergyConfig, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.terms, tuple) or not self.terms:
            raise ValueError(
                f"terms: got {self.terms!r}, expected a tuple of at least one energy config, such "
                f"as (InteractionConfig(4), ElementwiseConfig(344))."
            )
        for term in self.terms:
            require_energy_config("terms", term)

    def build(self, dim: int, *, rngs: nnx.Rngs) -> SumEnergy:
        """The sum, each term with parameters of its own."""
        return SumEnergy([term.build(dim, rngs=rngs) for term in self.terms])


class SumEnergy(Energy):
    """eps = sum_k eps_k: one layer that attends and transforms in the same step.

    Args:
        terms: the energies; their parameters become this energy's.
    """

    def __init__(self, terms: list[Energy]) -> None:
        self.terms = nnx.List(terms)

    def condition(self, c: Float[Array, "B S D"], sites: Sites) -> Context:
        """The contexts of the terms, in order."""
        return tuple(term.condition(c, sites) for term in self.terms)

    def __call__(self, u: Float[Array, "B L D"], context: Context) -> Float[Array, "B L"]:
        """The energy of each position; see the class."""
        values = [term(u, own) for term, own in zip(self.terms, context, strict=True)]
        return sum(values[1:], start=values[0])
