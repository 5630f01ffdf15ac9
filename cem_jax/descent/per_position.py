"""Any optax transformation, applied to each position alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float


def require_rule(transformation: Any, dim: int) -> None:
    """Refuse what is no optax transformation, or one that goes against the gradient it is given.

    The layer brings the minus sign and the step size; an optimiser such as ``optax.sgd(0.1)`` has
    its own, and the energy would be climbed.
    """
    require_transformation(transformation)
    # Large, so that noise that is added does not decide the sign.
    with jax.ensure_compile_time_eval():
        gradient = jnp.full((1, 1, dim), 1e3)
        rule = PerPosition(transformation)
        update, _ = rule.update(gradient, rule.init(gradient), gradient, step=jnp.asarray(0))
        against = float(jnp.sum(update * gradient)) < 0
    if against:
        raise ValueError(
            "transformation: got a rule whose update points against the gradient, as that of a "
            "whole optimiser does, expected one that keeps its direction, since the layer itself "
            "descends; use optax.scale_by_adam() and not optax.adam(...), or optax.trace(0.9) "
            "and not optax.sgd(...)."
        )


def require_transformation(transformation: Any) -> None:
    """Refuse anything but an optax transformation."""
    if not isinstance(transformation, optax.GradientTransformation):
        raise ValueError(
            f"transformation: got {transformation!r}, expected an optax GradientTransformation, "
            f"such as optax.clip_by_global_norm(1.0)."
        )


class PerPosition:
    """An optax transformation vmapped over batch and position, state and all.

    A transformation that reduces over its tree (a clip by global norm, say) would otherwise mix
    positions, and the future would leak into the past. Vmapped, every transformation is causal and
    independent of the batch by construction.

    Args:
        transformation: acts on one vector ``[D]``.
    """

    def __init__(self, transformation: optax.GradientTransformation) -> None:
        require_transformation(transformation)
        self._inner = optax.with_extra_args_support(transformation)

    def init(self, x: Float[Array, "B L D"]) -> Any:
        """The state of every position."""
        return jax.vmap(jax.vmap(self._inner.init))(x)

    def update(
        self, gradient: Float[Array, "B L D"], state: Any, x: Float[Array, "B L D"], *, step: Array
    ) -> tuple[Array, Any]:
        """The update of every position, to be added to x, and its new state."""

        def one(gradient: Array, state: Any, x: Array) -> tuple[Array, Any]:
            return self._inner.update(gradient, state, x, step=step)

        try:
            return jax.vmap(jax.vmap(one))(gradient, state, x)
        except TypeError as error:
            if "missing" not in str(error) or "'value'" not in str(error):
                raise
            raise ValueError(
                "transformation: got one that needs the energy's value (a line search or a Polyak "
                "step), expected one that needs the gradient alone; choose a fixed or a learned "
                "step size instead."
            ) from error
