"""Which parameters weight decay shrinks."""

from __future__ import annotations

from typing import Any

import jax

STACKED = "blocks"
"""Parameters under this name have the layer axis in front of their own."""

UNDECAYED = frozenset(
    {"gain", "step_size", "log_temperature", "d", "bias", "preconditioner"},
)
"""Names that exempt what stands under them: norm gains, eta, tau, the diagonal of an interaction
energy, the relative bias, and P. They scale or shape what the matrices do: decay would pull eta,
tau and P to values of no meaning, and keep d, the bias and V from leaving zero."""


def decayed(params: dict[str, Any]) -> dict[str, Any]:
    """Which leaves weight decay shrinks: a tree of booleans.

    Those of two axes or more, the layer axis not counted, under none of the names `UNDECAYED`.
    """
    return jax.tree_util.tree_map_with_path(_decays, params)


def _decays(path: tuple[Any, ...], leaf: Any) -> bool:
    names = [str(getattr(key, "key", key)) for key in path]
    axes = leaf.ndim - (names[0] == STACKED)
    return axes >= 2 and UNDECAYED.isdisjoint(names)
