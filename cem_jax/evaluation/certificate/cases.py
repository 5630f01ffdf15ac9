"""What `cem verify` covers: energies x options x norm modes x T x P x eta x momentum, as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from cem_jax.descent import DescentConfig, PreconditionerConfig, StepSizeConfig
from cem_jax.energies import (
    ContextScoreConfig,
    ElementwiseConfig,
    EnergyConfig,
    InteractionConfig,
    MemoryConfig,
    SumConfig,
)
from cem_jax.evaluation.certificate.pairwise import Row, covering
from cem_jax.ops.rotary import Rotary
from cem_jax.ops.visibility import Visible

ETA = 0.3


@dataclasses.dataclass(frozen=True)
class Case:
    """One layer: its name in the table, its energy and its descent."""

    name: str
    energy: EnergyConfig
    descent: DescentConfig


_DESCENT: dict[str, list[Any]] = {
    "norm": ["default", "exact", "once", "none"],
    "T": [2, 1, 3],
    "P": ["identity", "symmetric", "definite", "of each step"],
    "eta": ["layer", "step", "fixed"],
    "beta": [0.0, 0.4],
}
# Head width 6 makes sqrt(K) no short binary number; 2/3 of it is an even number of columns.
_ATTENTION: dict[str, list[Any]] = {
    "diagonal": ["none", "head", "shared"],
    "terms": ["no", "bias", "score", "both"],
    "keys": [4, 2],
    "sees": ["past", "window", "all", "unpacked"],
    "rotary": [1.0, 0.667, 0.0],
    "tau": ["sqrt(K)", "fixed", "learned"],
}
_MLP: dict[str, list[Any]] = {
    "form": ["nonlinear", "quadratic"],
    "phi": ["silu", "gelu", "squared_relu"],
}
_SUM: dict[str, list[Any]] = {"of": ["attention+mlp", "attention+memory", "all three"]}


def catalogue(full: bool) -> list[Case]:
    """Every option of every energy at least once or, ``full``, every pair of options."""
    strength = 2 if full else 1
    kinds: Iterable[tuple[str, dict[str, list[Any]], Callable[[Row], EnergyConfig]]] = (
        ("attention", _ATTENTION, attention),
        ("mlp", _MLP, mlp),
        ("memory", {}, lambda row: MemoryConfig(12)),
        ("sum", _SUM, total),
    )
    return [
        _case(kind, row, energy)
        for kind, factors, energy in kinds
        for row in covering({**factors, **_DESCENT}, strength, _sensible)
    ]


def _case(kind: str, row: Row, energy: Callable[[Row], EnergyConfig]) -> Case:
    name = " ".join([kind, *(f"{name}={value}" for name, value in row.items())])
    return Case(name, energy(row), descent(row))


def _sensible(row: Row) -> bool:
    """A relative bias is a function of a distance >= 0: the energy refuses it without order."""
    return not (row.get("sees") == "all" and row.get("terms") in ("bias", "both"))


def descent(row: Row) -> DescentConfig:
    """T, norm mode, P, eta and momentum of a row."""
    matrix = {
        "identity": None,
        "symmetric": PreconditionerConfig(rank=2),
        "definite": PreconditionerConfig(rank=2, definite=True),
        "of each step": PreconditionerConfig(rank=2, learn="step"),
    }
    return DescentConfig(
        steps=row["T"],
        norm_mode=row["norm"],
        step_size=StepSizeConfig(ETA, row["eta"]),
        preconditioner=matrix[row["P"]],
        momentum=row["beta"],
    )


def attention(row: Row) -> InteractionConfig:
    """The interaction energy of a row."""
    visible = {
        "past": Visible(),
        "window": Visible(window=3),
        "all": Visible(causal=False),
        "unpacked": Visible(packed=False),
    }
    score = ContextScoreConfig(width=4, rotary=Rotary(fraction=0.5))
    return InteractionConfig(
        heads=4,
        key_heads=row["keys"],
        head_dim=6,
        diagonal=row["diagonal"],
        rotary=Rotary(fraction=row["rotary"], base=100.0),
        visible=visible[row["sees"]],
        temperature=3.3 if row["tau"] == "fixed" else None,
        learn_temperature=row["tau"] == "learned",
        relative_bias=3 if row["terms"] in ("bias", "both") else None,
        context_score=score if row["terms"] in ("score", "both") else None,
    )


def mlp(row: Row) -> ElementwiseConfig:
    """The element-wise energy of a row."""
    return ElementwiseConfig(features=12, form=row["form"], activation=row["phi"])


def total(row: Row) -> SumConfig:
    """The sum of energies of a row."""
    attend = InteractionConfig(heads=2, diagonal="shared")
    terms: dict[str, tuple[EnergyConfig, ...]] = {
        "attention+mlp": (attend, ElementwiseConfig(12)),
        "attention+memory": (attend, MemoryConfig(12)),
        "all three": (attend, ElementwiseConfig(12, form="quadratic"), MemoryConfig(12)),
    }
    return SumConfig(terms[row["of"]])


def cases_of(kind: str, energy: EnergyConfig, full: bool) -> list[Case]:
    """A user's energy under every norm mode, T, P and eta or, ``full``, every pair of them."""
    rows = covering(_DESCENT, 2 if full else 1, _sensible)
    return [_case(kind, row, lambda row: energy) for row in rows]
