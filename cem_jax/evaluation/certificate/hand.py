"""What a layer written by hand needs of its energy: the value, and minus the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array

from cem_jax.ops.visibility import Sites

Parameters = dict[Any, Any]
"""A nested dict of arrays, as `nnx.to_pure_dict` gives it."""


class HandEnergy(NamedTuple):
    """An energy whose negative gradient is a formula; the context is already in it.

    Attributes:
        value: ``u [B, L, D] -> eps [B, L]``.
        update: ``u [B, L, D] -> -grad_u eps [B, L, D]``.
    """

    value: Callable[[Array], Array]
    update: Callable[[Array], Array]


HandForm = Callable[[Parameters, Array, Sites], HandEnergy]
"""``(parameters of the energy, c [B, S, D], sites) -> HandEnergy``."""
