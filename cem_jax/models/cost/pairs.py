"""How many pairs of positions an attention joins."""

from __future__ import annotations

from typing import Literal

from cem_jax.ops.visibility import Visible

Pairs = Literal["full", "visible"]
"""Which pairs of positions count: ``"full"`` all that a dense product forms, which families are
compared by; ``"visible"`` those that the rule of visibility lets through, which a model needs."""


def count_pairs(length: int, visible: Visible, pairs: Pairs) -> int:
    """The pairs of positions (i, j) of one document of L positions.

    ``"full"``: L^2. ``"visible"`` with w = min(window, L): where causal
    sum_i min(i, w) = L w - w (w - 1) / 2, i from 1 to L; where both directions are seen twice
    that, less the L pairs of a position with itself.

    Args:
        length: L.
        visible: the rule of visibility.
        pairs: which ones count.
    """
    if pairs == "full":
        return length**2
    window = length if visible.window is None else min(visible.window, length)
    backward = length * window - window * (window - 1) // 2
    return backward if visible.causal else 2 * backward - length
