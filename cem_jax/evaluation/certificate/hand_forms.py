"""Which energies have a hand-written form."""

from __future__ import annotations

from jaxtyping import Array

from cem_jax.energies import (
    ElementwiseConfig,
    EnergyConfig,
    InteractionConfig,
    MemoryConfig,
    SumConfig,
)
from cem_jax.evaluation.certificate.hand import HandEnergy, HandForm, Parameters
from cem_jax.evaluation.certificate.hand_attention import hand_attention
from cem_jax.evaluation.certificate.hand_memory import hand_memory
from cem_jax.evaluation.certificate.hand_mlp import hand_mlp
from cem_jax.ops.visibility import Sites


def hand_form(config: EnergyConfig) -> HandForm | None:
    """The form of an energy, or None where nobody wrote one: a user's energy."""
    if isinstance(config, InteractionConfig):
        return hand_attention(config)
    if isinstance(config, ElementwiseConfig):
        return hand_mlp(config)
    if isinstance(config, MemoryConfig):
        return hand_memory
    if isinstance(config, SumConfig):
        forms = [hand_form(term) for term in config.terms]
        return _sum([form for form in forms if form is not None]) if all(forms) else None
    return None


def _sum(forms: list[HandForm]) -> HandForm:
    """Values and updates add."""

    def form(parameters: Parameters, c: Array, sites: Sites) -> HandEnergy:
        terms = [
            one(parameters["terms"].get(index, {}), c, sites) for index, one in enumerate(forms)
        ]

        def value(u: Array) -> Array:
            return sum((term.value(u) for term in terms[1:]), start=terms[0].value(u))

        def update(u: Array) -> Array:
            return sum((term.update(u) for term in terms[1:]), start=terms[0].update(u))

        return HandEnergy(value, update)

    return form
