"""P, the learned preconditioner: diagonal plus low rank, as an optax transformation."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float

from cem_jax.ops.checks import require_count, require_one_of
from cem_jax.ops.contract import contract
from cem_jax.ops.parameters import fan_in, parameter

Learning = Literal["layer", "step"]


@dataclasses.dataclass(frozen=True)
class PreconditionerConfig:
    """The options of equation (8).

    Attributes:
        rank: R, at least 1.
        definite: whether P is positive semi-definite by construction.
        learn: one P for all steps of a ``"layer"``, or one for each ``"step"``.
    """

    rank: int = 16
    definite: bool = False
    learn: Learning = "layer"

    def __post_init__(self) -> None:
        require_count("preconditioner rank", self.rank)
        require_one_of("preconditioner learning", self.learn, get_args(Learning))

    def build(self, dim: int, *, steps: int = 1, rngs: nnx.Rngs) -> Preconditioner:
        """The preconditioner of T steps at width ``dim``; the identity at the start."""
        return Preconditioner(dim, self, steps=steps, rngs=rngs)


class Preconditioner(nnx.Module):
    """A symmetric matrix applied to the gradient of one position; equation (8).

    P = diag(softplus(d)) + U V^T + V U^T, not positive semi-definite by construction; or, where
    ``config.definite``, P = M M^T with M = diag(d) + U V^T, which is.

    Args:
        dim: D.
        config: the options.
        steps: T, the number of matrices where each step has its own.
        rngs: the stream ``params`` draws U.

    Parameters: ``diagonal [D]`` (d), ``left [D, R]`` (U, small and random), ``right [D, R]`` (V,
    zero: P starts as the identity, and U lets V receive a gradient); each with a leading ``[T]``
    where ``config.learn`` is ``"step"``.

    Source: arXiv 2605.07588; the definite form and a P of each step are ours.
    """

    def __init__(
        self, dim: int, config: PreconditionerConfig, *, steps: int = 1, rngs: nnx.Rngs
    ) -> None:
        self.config = config
        self.dim = dim
        self.count = steps if config.learn == "step" else 1
        # softplus(log(e - 1)) = 1.
        start = 1.0 if config.definite else math.log(math.e - 1)
        lead, axis = ((steps,), "T ") if config.learn == "step" else ((), "")
        thin = (*lead, dim, config.rank)
        self.diagonal = parameter(jnp.full((*lead, dim), start), f"{axis}D")
        self.left = parameter(fan_in(rngs, thin, dim), f"{axis}D R")
        self.right = parameter(jnp.zeros(thin), f"{axis}D R")

    def __call__(self, gradient: Float[Array, "D"], step: Array | int = 0) -> Float[Array, "D"]:
        """P_t g, as two thin products instead of a matrix."""
        g = gradient
        diagonal, left, right = (factor.astype(g.dtype) for factor in self.factors(step))
        if self.config.definite:
            inner = diagonal * g + _outer(g, left, right)
            return diagonal * inner + _outer(inner, right, left)
        # U V^T + V U^T as one pair of products of width 2R.
        inner, outer = (jnp.concatenate(pair, axis=1) for pair in ((right, left), (left, right)))
        return jax.nn.softplus(diagonal) * g + _outer(g, inner, outer)

    def factors(self, step: Array | int = 0) -> tuple[Array, Array, Array]:
        """d ``[D]``, U ``[D, R]`` and V ``[D, R]`` of one step."""
        d, u, v = (factor[...] for factor in (self.diagonal, self.left, self.right))
        return (d[step], u[step], v[step]) if self.config.learn == "step" else (d, u, v)

    def matrix(self, step: Array | int = 0) -> Float[Array, "D D"]:
        """P itself, for diagnostics: its least eigenvalue says whether a step goes downhill."""
        basis = jnp.eye(self.dim, dtype=self.diagonal.dtype)
        return jax.vmap(lambda g: self(g, step))(basis)

    def require(self, steps: int) -> None:
        """Refuse more steps than there are learned matrices: no rule says what they would be."""
        if self.config.learn == "step" and steps > self.count:
            raise ValueError(
                f"steps: got {steps} with {self.count} learned preconditioners, expected at most "
                f"{self.count}; learn one per layer (learn='layer') to run deeper."
            )

    def transformation(self) -> optax.GradientTransformationExtraArgs:
        """Replaces g by P_t g, where `descend` says which step it is; it chains like any other."""

        def update(
            updates: Any, state: Any, params: Any = None, *, step: Array | int = 0, **extra: Any
        ) -> tuple[Any, Any]:
            return self(updates, step), state

        return optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)


def _outer(g: Float[Array, "D"], inner: Float[Array, "D R"], outer: Float[Array, "D R"]) -> Array:
    """outer inner^T g."""
    return contract(contract(g, inner), outer, y_end="back")
