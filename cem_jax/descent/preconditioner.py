"""P, the learned preconditioner: diagonal plus low rank, as an optax transformation."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float

from cem_jax.ops.checks import require_count
from cem_jax.ops.contract import contract
from cem_jax.ops.parameters import fan_in, parameter


@dataclasses.dataclass(frozen=True)
class PreconditionerConfig:
    """The options of equation (8).

    Attributes:
        rank: R, at least 1.
        definite: whether P is positive semi-definite by construction.
    """

    rank: int = 16
    definite: bool = False

    def __post_init__(self) -> None:
        require_count("preconditioner rank", self.rank)

    def build(self, dim: int, *, rngs: nnx.Rngs) -> Preconditioner:
        """The preconditioner of a model of width ``dim``; the identity at the start."""
        return Preconditioner(dim, self, rngs=rngs)


class Preconditioner(nnx.Module):
    """A symmetric matrix applied to the gradient of one position; equation (8).

    P = diag(softplus(d)) + U V^T + V U^T, not positive semi-definite by construction; or, where
    ``config.definite``, P = M M^T with M = diag(d) + U V^T, which is.

    Args:
        dim: D.
        config: the options.
        rngs: the stream ``params`` draws U.

    Parameters: ``diagonal [D]`` (d), ``left [D, R]`` (U, small and random), ``right [D, R]`` (V,
    zero: P starts as the identity, and U lets V receive a gradient).

    Source: arXiv 2605.07588; the definite form is ours.
    """

    def __init__(self, dim: int, config: PreconditionerConfig, *, rngs: nnx.Rngs) -> None:
        self.config = config
        # softplus(log(e - 1)) = 1.
        start = 1.0 if config.definite else math.log(math.e - 1)
        self.diagonal = parameter(jnp.full((dim,), start), "D")
        self.left = parameter(fan_in(rngs, (dim, config.rank), dim), "D R")
        self.right = parameter(jnp.zeros((dim, config.rank)), "D R")

    def __call__(self, gradient: Float[Array, "D"]) -> Float[Array, "D"]:
        """P g, as two thin products instead of a matrix."""
        g = gradient
        factors = (self.diagonal, self.left, self.right)
        diagonal, left, right = (factor[...].astype(g.dtype) for factor in factors)
        if self.config.definite:
            inner = diagonal * g + _outer(g, left, right)
            return diagonal * inner + _outer(inner, right, left)
        # U V^T + V U^T as one pair of products of width 2R.
        inner, outer = (jnp.concatenate(pair, axis=1) for pair in ((right, left), (left, right)))
        return jax.nn.softplus(diagonal) * g + _outer(g, inner, outer)

    def matrix(self) -> Float[Array, "D D"]:
        """P itself, for diagnostics: its least eigenvalue says whether a step goes downhill."""
        return jax.vmap(self)(jnp.eye(self.diagonal.shape[0], dtype=self.diagonal.dtype))

    def transformation(self) -> optax.GradientTransformation:
        """Replaces g by P g; it chains like any other."""

        def update(updates: Any, params: Any) -> Any:
            return self(updates)

        return optax.stateless(update)


def _outer(g: Float[Array, "D"], inner: Float[Array, "D R"], outer: Float[Array, "D R"]) -> Array:
    """outer inner^T g."""
    return contract(contract(g, inner), outer, y_end="back")
