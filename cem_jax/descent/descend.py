"""The inner loop: `jax.grad` of an energy, applied T times inside `jax.lax.scan`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import errors as flax_errors
from jaxtyping import Array, Bool, Float

from cem_jax.descent.per_position import PerPosition
from cem_jax.ops.checks import require_count
from cem_jax.ops.dtypes import accumulation_dtype
from cem_jax.ops.remat import Remat, rematerialised

Value = Callable[[Array], Array]


class Descent(NamedTuple):
    """What a descent reached, and on request the way there.

    Attributes:
        x: ``[B, L, D]``, x^(T).
        energies: ``[T + 1, B, L]``, the energy of each position at x^(0) .. x^(T); or None.
        gradient_norms: ``[T, B, L]``, the Euclidean norm of each step's gradient; or None.
    """

    x: Float[Array, "B L D"]
    energies: Float[Array, "T1 B L"] | None = None
    gradient_norms: Float[Array, "T B L"] | None = None


def identity(x: Array) -> Array:
    """The point itself: the energy is taken at x."""
    return x


def descend(
    energy: Value,
    x0: Float[Array, "B L D"],
    *,
    steps: int,
    transformation: optax.GradientTransformation,
    at: Callable[[Array], Array] = identity,
    guard: bool = False,
    trace: bool = False,
    unroll: int = 1,
    remat: Remat = "none",
) -> Descent:
    """x^(t+1) = x^(t) + update(grad_u sum_i eps_i(u^(t))),  u^(t) = at(x^(t)); equation (1).

    The gradient is taken at ``u`` and not through ``at``; the outer derivative flows through all.
    Each position is an optimisation problem of its own, so the transformation sees one vector
    ``[D]`` at a time: it is vmapped, state included, over batch and position, and none can mix
    positions. It is told the step's index through the extra argument ``step``.

    Args:
        energy: maps ``[B, L, D]`` to the energy of each position, ``[B, L]``, float32 or wider.
        x0: the start, carried in float32 or wider.
        steps: T, at least 1.
        transformation: any optax transformation that does not ask for the energy's value; as in
            optax its update is added, so that a plain step is ``optax.scale(-eta)``.
            ``optax.add_noise`` draws the same noise at every position.
        at: where the gradient is taken, such as a norm.
        guard: whether the outer derivative stops at a position whose gradient is exactly zero, as
            padding's is. Through a rule that divides by the gradient's norm it would be NaN there,
            and reach every weight; plain and preconditioned steps need no guard.
        trace: whether energies and gradient norms are recorded; free when they are not.
        unroll: how many steps the scan unrolls, at least 1.
        remat: what the outer derivative keeps of a step; with ``"full"`` memory grows by the carry
            alone for each further step.

    Returns:
        A `Descent`.

    Raises:
        ValueError: for T < 1, an energy of another shape or dtype, an energy that mutates state,
            or a transformation that needs the energy's value (a line search).
    """
    require_count("steps", steps)
    require_count("unroll", unroll)
    x0 = x0.astype(accumulation_dtype(x0))
    transform = PerPosition(transformation)
    total = _checked_total(energy)

    def step(carry: tuple[Array, Any], index: Array) -> tuple[tuple[Array, Any], Any]:
        x, state = carry
        if trace:
            (_, energies), gradient = jax.value_and_grad(total, has_aux=True)(at(x))
            # The derivative of a plain norm is NaN at zero, where padding is.
            record = (energies, optax.safe_norm(gradient, 0.0, axis=-1))
        else:
            gradient, _ = jax.grad(total, has_aux=True)(at(x))
            record = None
        still = jnp.all(gradient == 0, axis=-1) if guard else None
        gradient, point = _stopped(gradient, still), _stopped(x, still)
        update, state = transform.update(gradient, state, point, step=index)
        update = _stopped(update, still)
        return (x + update.astype(x.dtype), state), record

    body = rematerialised(step, remat)
    start = (x0, transform.init(x0))
    try:
        (x, _), record = jax.lax.scan(body, start, jnp.arange(steps), unroll=min(unroll, steps))
        if not trace:
            return Descent(x)
        last = total(at(x))[1]
    except flax_errors.TraceContextError as error:
        raise ValueError(
            "energy: got one that mutates its own state when called, expected a pure function of "
            "(u, context); pass what changes through the context, or compute it in condition()."
        ) from error
    return Descent(x, jnp.concatenate([record[0], last[None]]), record[1])


def _stopped(value: Array, where: Bool[Array, "B L"] | None) -> Array:
    """The same value, constant in the outer derivative where told."""
    if where is None:
        return value
    return jnp.where(where[..., None], jax.lax.stop_gradient(value), value)


def _checked_total(energy: Value) -> Callable[[Array], tuple[Array, Array]]:
    """Sum over positions, whose gradient is each position's own; the energies ride along."""

    def total(u: Array) -> tuple[Array, Array]:
        energies = energy(u)
        shape = getattr(energies, "shape", None)
        if shape != u.shape[:2]:
            got = type(energies).__name__ if shape is None else f"shape {shape}"
            raise ValueError(
                f"energy: got {got} for u of shape {u.shape}, expected one energy per position, "
                f"{u.shape[:2]}; sum over the last axis only."
            )
        if energies.dtype not in (jnp.float32, jnp.float64):
            raise ValueError(
                f"energy: got dtype {energies.dtype}, expected float32 or wider; sum with "
                f"jnp.sum(..., dtype=cem_jax.accumulation_dtype(u))."
            )
        return jnp.sum(energies), energies

    return total
