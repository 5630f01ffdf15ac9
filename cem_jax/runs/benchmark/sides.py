"""The names of our own sides, and the models they stand for."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, NamedTuple

from cem_jax.energies import ElementwiseConfig, InteractionConfig
from cem_jax.evaluation.hand_written import HandWrittenConfig
from cem_jax.models import CEMConfig, MHAConfig, Recipe, SwiGLUConfig, TransformerConfig
from cem_jax.models.config import preset_descents
from cem_jax.ops.checks import nearest
from cem_jax.runs.benchmark.shape import Shape

DEFAULT = (
    "llama",
    *(f"cem-{steps}{variant}" for steps in (1, 2, 4) for variant in ("-bare", "")),
    "hand-2",
    "plain-2",
)
"""What ``cem bench`` compares unless it is told."""


class Named(NamedTuple):
    """A name, read.

    Attributes:
        kind: ``"llama"``, ``"cem"``, ``"hand"`` or ``"plain"``.
        recipe: of a CEM.
    """

    kind: str
    recipe: Recipe


def parse_side(name: str) -> Named:
    """``llama``, or ``cem``, ``hand`` or ``plain`` with T, and ``-bare`` for no diagonal and no P.

    Raises:
        ValueError: another name.
    """
    if name == "llama":
        return Named("llama", Recipe())
    found = re.fullmatch(r"(cem|hand|plain)-([1-9]\d*)(-bare)?", name)
    if found is None:
        raise ValueError(
            f"sides: got {name!r}, expected llama, or cem-T, hand-T or plain-T with a number of "
            f"inner steps T, such as cem-2, and cem-2-bare without diagonal and preconditioner."
            f"{nearest(name, DEFAULT)}"
        )
    kind, steps, bare = found.groups()
    recipe = Recipe(int(steps))
    if bare:
        recipe = dataclasses.replace(recipe, diagonal="none", preconditioner=None)
    return Named(kind, recipe)


def model_config(name: str, shape: Shape, backend: str | None = None) -> TransformerConfig:
    """The model of a side.

    Args:
        name: see `parse_side`. ``hand`` is the same model with the updates of its layers written
            out; ``plain`` takes `jax.grad` of the naive attention energy, without the given
            derivative.
        shape: of the model.
        backend: of the attention of ``cem`` sides; None is the package's choice.

    Raises:
        ValueError: another name, or an unknown backend.
    """
    kind, recipe = parse_side(name)
    attention: Any = MHAConfig(shape.heads)
    mlp: Any = SwiGLUConfig(shape.features)
    if kind != "llama":
        attention, mlp = _sublayers(kind, recipe, shape, backend)
    common = {"attention": attention, "mlp": mlp, "dtype": shape.dtype}
    return TransformerConfig(shape.vocab_size, shape.dim, shape.layers, **common)


def _sublayers(kind: str, recipe: Recipe, shape: Shape, backend: str | None) -> tuple[Any, Any]:
    chosen = "plain" if kind == "plain" else backend if kind == "cem" else None
    options: dict[str, Any] = {} if chosen is None else {"backend": chosen}
    energy = InteractionConfig(shape.heads, diagonal=recipe.diagonal, **options)
    for_attention, for_mlp = preset_descents(recipe, shape.layers)
    layers = (
        CEMConfig(energy, for_attention),
        CEMConfig(ElementwiseConfig(shape.features), for_mlp),
    )
    attention, mlp = (HandWrittenConfig(layer) if kind == "hand" else layer for layer in layers)
    return attention, mlp
