"""What a descent does: the least eigenvalue of P, and the decrease that a step is promised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from cem_jax.descent import Preconditioner
from cem_jax.descent.per_position import PerPosition
from cem_jax.models import CEMLayer, Transformer
from cem_jax.ops.visibility import Sites, sites_or_dense

CURVATURE_SAMPLES = 33


def least_eigenvalue(preconditioner: Preconditioner) -> Float[Array, ""]:
    """The least eigenvalue of P, (8): a step along -P g is sure to go downhill only if positive.

    The least of all steps, where each has its own P.
    """

    def of_step(step: Array) -> Float[Array, ""]:
        return jnp.min(jnp.linalg.eigvalsh(preconditioner.matrix(step)))

    return jnp.min(jax.lax.map(of_step, jnp.arange(preconditioner.count)))


def least_eigenvalues(model: Transformer) -> dict[str, Float[Array, "N"]]:
    """`least_eigenvalue` of every layer, for each sublayer that has a P: attention, mlp."""
    found = {}
    for name in ("attention", "mlp"):
        matrix = getattr(getattr(model.blocks, name), "preconditioner", None)
        if matrix is not None:
            found[name] = _over_layers(matrix)
    return found


def _over_layers(stacked: Preconditioner) -> Float[Array, "N"]:
    # One matrix after the other: on CPUs a batch of them is spread over the very threads that the
    # devices run on, and where each of these waits for the others, none ends (jaxlib 0.10.2).
    graph, parameters = nnx.split(stacked)
    return jax.lax.map(lambda one: least_eigenvalue(nnx.merge(graph, one)), parameters)


class Decrease(NamedTuple):
    """What each step of a descent won, and what it was promised.

    Attributes:
        found: ``[T, B, L]``, eps(u^(t)) - eps(u^(t+1)).
        promised: ``[T, B, L]``, a lower bound of it.
    """

    found: Float[Array, "T B L"]
    promised: Float[Array, "T B L"]


def concave_decrease(
    layer: CEMLayer, h: Float[Array, "B L D"], sites: Sites | None = None
) -> Decrease:
    """decrease >= -g . update, for any update, where the energy is concave in u.

    True of the interaction energy and of the memory where u itself descends. For a preconditioned
    step the bound is eta g^T P g, positive only if P is positive definite.

    Args:
        layer: in norm mode ``"once"`` or ``"none"``.
        h: ``[B, L, D]``.
        sites: positions and segments; by default each row is one document.

    Raises:
        ValueError: in the other norm modes, where the bound is false.
    """
    steps = list(_steps(layer, h, sites))
    found = [step.energy(step.u) - step.energy(step.u + step.update) for step in steps]
    return Decrease(jnp.stack(found), jnp.stack([_slope(step) for step in steps]))


def curved_decrease(
    layer: CEMLayer, h: Float[Array, "B L D"], sites: Sites | None = None
) -> Decrease:
    """decrease >= -g . update - 1/2 max_s v^T H(u + s v) v, v the update: for any smooth energy.

    For a plain step it reads eta |g|^2 (1 - eta Lc / 2), Lc the curvature on the segment; its
    largest value is taken over samples. Arguments and errors are those of `concave_decrease`.
    """
    steps = list(_steps(layer, h, sites))
    found = [step.energy(step.u) - step.energy(step.u + step.update) for step in steps]
    promised = [_slope(step) - _curvature(step) / 2 for step in steps]
    return Decrease(jnp.stack(found), jnp.stack(promised))


class _Step(NamedTuple):
    energy: Callable[[Array], Array]
    u: Array
    gradient: Array
    update: Array


def _steps(layer: CEMLayer, h: Array, sites: Sites | None) -> Iterator[_Step]:
    """The layer's descent as a Python loop, which shows every step."""
    mode = layer.descent.norm_mode
    if mode not in ("once", "none"):
        raise ValueError(
            f"norm_mode: got {mode!r}, expected 'once' or 'none', where u itself descends; in the "
            f"other modes no decrease is promised."
        )
    u = h if layer.norm is None else layer.norm(h)
    context = layer.energy.condition(u.astype(layer.dtype), sites_or_dense(h, sites))

    def energy(u: Array) -> Array:
        return layer.energy(u.astype(layer.dtype), context)

    rule = PerPosition(layer.transformation())
    state = rule.init(u)
    for index in range(layer.descent.steps):
        gradient = jax.grad(lambda u: jnp.sum(energy(u)))(u)
        update, state = rule.update(gradient, state, u, step=jnp.asarray(index))
        yield _Step(energy, u, gradient, update)
        u = u + update


def _slope(step: _Step) -> Float[Array, "B L"]:
    return -jnp.sum(step.gradient * step.update, axis=-1)


def _curvature(step: _Step) -> Float[Array, "B L"]:
    """The largest second derivative of eps(u + s v) in s, over samples of 0 <= s <= 1."""

    def second(s: Array) -> Array:
        def along(s: Array) -> Array:
            return step.energy(step.u + s * step.update)

        one = jnp.ones_like(s)
        return jax.jvp(lambda s: jax.jvp(along, (s,), (one,))[1], (s,), (one,))[1]

    samples = jnp.linspace(0.0, 1.0, CURVATURE_SAMPLES, dtype=step.u.dtype)
    return jnp.max(jax.lax.map(second, samples), axis=0)
