"""What a layer lets through that it must not: the future, other documents, other examples."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from cem_jax.ops.visibility import Sites

# Row 0 holds documents of 4 and 3 positions, row 1 one of 7.
_SITES = (
    ((0, 1, 2, 3, 0, 1, 2), (0, 1, 2, 3, 4, 5, 6)),
    ((1, 1, 1, 1, 2, 2, 2), (1, 1, 1, 1, 1, 1, 1)),
)

# Name: the positions (row, column) whose input changes; those whose output must not.
_PROBES: dict[str, tuple[list[tuple[int, slice]], list[tuple[int, slice]]]] = {
    "the future": ([(0, slice(6, 7)), (1, slice(3, 7))], [(0, slice(4, 6)), (1, slice(0, 3))]),
    "another document": ([(0, slice(0, 4))], [(0, slice(4, 7))]),
    "another example": ([(1, slice(0, 7))], [(0, slice(0, 7))]),
}


def leaks(layer: Callable[[Array, Sites], Array], dim: int, *, seed: int = 0) -> dict[str, float]:
    """How far outputs move with inputs that they must not see; zero, exactly, of a causal layer.

    Args:
        layer: maps ``h [B, L, D]`` and its sites to ``[B, L, D]``.
        dim: D.
        seed: of the inputs.

    Returns:
        The largest change by what it came from: ``"the future"``, ``"another document"``,
        ``"another example"``. NaN counts as infinite.
    """
    draw = np.random.default_rng(seed)
    sites = Sites(*(jnp.asarray(values, jnp.int32) for values in _SITES))
    h, other = (draw.standard_normal((2, 7, dim)).astype(np.float32) for _ in range(2))
    run = jax.jit(layer)
    before = np.asarray(run(jnp.asarray(h), sites))
    found = {}
    for name, (changed, kept) in _PROBES.items():
        moved = h.copy()
        for place in changed:
            moved[place] = other[place]
        after = np.asarray(run(jnp.asarray(moved), sites))
        change = max(float(np.max(np.abs(after[place] - before[place]))) for place in kept)
        found[name] = change if np.isfinite(change) else float("inf")
    return found


def require_causal(name: str, layer: Callable[[Array, Sites], Array], dim: int) -> None:
    """Refuse a layer that sees what a language model's must not.

    Raises:
        ValueError: says what is seen.
    """
    seen = {source: change for source, change in leaks(layer, dim).items() if change}
    if seen:
        what = ", ".join(f"{source} (by {change:.1e})" for source, change in seen.items())
        raise ValueError(
            f"{name}: got an energy whose output moves with {what}, expected none of it; let "
            f"condition() read the positions that Visible().allowed(sites, sites) marks."
        )
