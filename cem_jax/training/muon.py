"""Which parameters Muon owns, and how each is a matrix."""

from __future__ import annotations

from typing import Any

import jax
from optax.contrib import MuonDimensionNumbers

from cem_jax.training.decay import STACKED, decayed

EMBEDDING = "D"
"""The logical name of the model's width."""


def muon_dimensions(params: dict[str, Any], axes: dict[str, Any]) -> dict[str, Any]:
    """For each leaf `MuonDimensionNumbers`, or None where Adam owns it.

    Muon owns the matrices of weights in the blocks: those that decay. Embedding and readout are
    no maps between hidden states and stay with Adam, as do vectors, preconditioners and biases.
    The layer axis is a batch of matrices, never a dimension of one: Optax takes what it is not
    told of for a batch, and would leave stacked leaves to Adam without dimension numbers.

    A matrix maps the model's width D to all its other axes (``wq [D, H, K]`` is D x HK), or, with D
    last, the other way (``wo [H, K, D]`` is HK x D). A leaf without names, as in an energy whose
    author gave none, maps its first axis to the rest.

    Args:
        params: arrays or their shapes.
        axes: the names, see `models.axes.parameter_axes`.
    """
    owned = decayed(params)

    def numbers(path: tuple[Any, ...], leaf: Any, holds: bool) -> MuonDimensionNumbers | None:
        if not holds or path[0].key != STACKED:
            return None
        return _numbers(leaf.ndim, _names(axes, path))

    return jax.tree_util.tree_map_with_path(numbers, params, owned)


def _names(axes: Any, path: tuple[Any, ...]) -> list[str]:
    """The names of a leaf's axes, the layer's first; empty where it has none."""
    for key in path:
        axes = None if axes is None else axes.get(key.key)
    return [] if axes is None else axes.split()


def _numbers(rank: int, names: list[str]) -> MuonDimensionNumbers:
    if names and names[1] != EMBEDDING and names[-1] == EMBEDDING:
        return MuonDimensionNumbers(tuple(range(1, rank - 1)), (rank - 1,))
    return MuonDimensionNumbers((1,), tuple(range(2, rank)))
