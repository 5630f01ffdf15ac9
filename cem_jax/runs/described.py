"""Frozen configs as JSON, and back."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import cem_jax.energies as energies
import cem_jax.models as models
import cem_jax.training as training
from cem_jax.descent import DescentConfig, PreconditionerConfig, StepSizeConfig
from cem_jax.ops.rotary import Rotary
from cem_jax.ops.visibility import Visible
from cem_jax.runs.config import DataConfig, RunConfig
from cem_jax.runs.user_energy import UserEnergy, load_energy


def describe(value: Any) -> Any:
    """A frozen config as JSON, with the names of the classes: ``{"type": ..., field: ...}``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: describe(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, tuple | list):
        return [describe(item) for item in value]
    if callable(value):
        return value.__qualname__
    return str(value) if isinstance(value, Path) else value


def rebuild(described: Any) -> Any:
    """The config that `describe` described.

    Raises:
        ValueError: a class that is not ours, a field that there is not, a rule that only Python
            can give, or a user's energy whose file is gone or was changed.
    """
    if isinstance(described, list):
        return tuple(rebuild(item) for item in described)
    if not isinstance(described, dict):
        return described
    name = described.get("type")
    if name == UserEnergy.__name__:
        return load_energy(described["spec"], source_hash=described["source_hash"])
    if name not in _classes():
        raise ValueError(
            f"config: got a description of {name!r}, expected one of {', '.join(_classes())}; what "
            f"was given in Python must be rebuilt in Python."
        )
    cls = _classes()[name]
    fields = {key: rebuild(value) for key, value in described.items() if key != "type"}
    known = {field.name for field in dataclasses.fields(cls)}
    if unknown := sorted(set(fields) - known):
        raise ValueError(
            f"config: got the fields {unknown} of {name}, expected only {sorted(known)}; it was "
            f"written by another version of cem_jax: read it with that one."
        )
    if fields.get("transformation") is not None:
        raise ValueError(
            f"config: got the transformation {fields['transformation']}, which was given in "
            f"Python, expected none; rebuild this model in Python."
        )
    return cls(**fields)


def completed(described: Any) -> Any:
    """A description with the fields that its classes have got since, at their defaults.

    A new field's default is what was done before there was one.
    """
    if isinstance(described, list):
        return [completed(item) for item in described]
    if not isinstance(described, dict):
        return described
    cls = _classes().get(described.get("type", ""))
    added = {
        field.name: describe(field.default)
        for field in ([] if cls is None else dataclasses.fields(cls))
        if field.name not in described and field.default is not dataclasses.MISSING
    }
    return {key: completed(value) for key, value in {**described, **added}.items()}


def differences(stored: Any, asked: Any, path: str = "") -> list[str]:
    """Where two descriptions differ, each as ``path: stored, asked``."""
    if isinstance(stored, dict) and isinstance(asked, dict):
        keys = list(dict.fromkeys([*stored, *asked]))
        return [
            line
            for key in keys
            for line in differences(
                stored.get(key), asked.get(key), f"{path}.{key}" if path else key
            )
        ]
    return [] if stored == asked else [f"{path}: {stored!r} there, {asked!r} asked"]


def _classes() -> dict[str, type]:
    """The configs that a run may hold, by name."""
    known = (
        RunConfig,
        DataConfig,
        models.TransformerConfig,
        models.CEMConfig,
        models.MHAConfig,
        models.SwiGLUConfig,
        energies.InteractionConfig,
        energies.ContextScoreConfig,
        energies.ElementwiseConfig,
        energies.MemoryConfig,
        energies.SumConfig,
        DescentConfig,
        StepSizeConfig,
        PreconditionerConfig,
        Rotary,
        Visible,
        training.TrainingConfig,
        training.AdamWConfig,
        training.MuonConfig,
        training.ScheduleConfig,
    )
    return {cls.__name__: cls for cls in known}
