"""Any optax transformation, applied to each position alone."""

from __future__ import annotations

from typing import Any

import jax
import optax
from jaxtyping import Array, Float


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
