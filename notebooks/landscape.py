"""Surfaces of an energy in the plane, and walks down them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import style
from matplotlib.axes import Axes

from cem_jax import descend

EXTENT = 3.0
"""Pictures show the square from -EXTENT to EXTENT."""


def everywhere(energy: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """An energy of one point, for points ``[B, L, 2]`` at once."""
    return jax.jit(jax.vmap(jax.vmap(energy)))


def paths(
    energy: Callable[[Any], Any],
    starts: Any,
    steps: int,
    transformation: optax.GradientTransformation,
) -> np.ndarray:
    """x^(0) .. x^(steps) of each start, ``[steps + 1, N, 2]``: T steps are one step, T times.

    Args:
        energy: of one point.
        starts: ``[N, 2]``.
        steps: T.
        transformation: one without state, such as ``optax.scale(-eta)``.
    """

    @jax.jit
    def step(x: jax.Array) -> jax.Array:
        return descend(everywhere(energy), x, steps=1, transformation=transformation).x

    run = [jnp.asarray(starts)[:, None]]
    for _ in range(steps):
        run.append(step(run[-1]))
    return np.stack(run)[:, :, 0]


def surface(axis: Axes, energy: Callable[[Any], Any], keys: Any = None) -> Any:
    """Contours of an energy, lighter where it is higher, and the context as stars."""
    ticks = jnp.linspace(-EXTENT, EXTENT, 81)
    grid = jnp.stack(jnp.meshgrid(ticks, ticks), axis=-1)
    filled = axis.contourf(ticks, ticks, np.asarray(everywhere(energy)(grid)), levels=24)
    axis.set(xlabel="$u_1$", ylabel="$u_2$", aspect="equal")
    if keys is not None:
        stars = {"color": style.ORANGE, "markersize": 17, "markeredgecolor": "black"}
        axis.plot(*np.asarray(keys).T, "*", label="context $c_j$", **stars)
    # A path that leaves the picture shall not shrink it.
    axis.autoscale(False)
    return filled


def walk(axis: Axes, path: np.ndarray, **look: Any) -> None:
    """A descent path with a dot at every step and a ring at its start."""
    axis.plot(*path.T, **{"marker": "o", "markersize": 4, **look})
    axis.plot(*path[0], "o", color="white", markersize=9, markeredgecolor="black")
