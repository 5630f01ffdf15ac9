"""The CEM layer: the one place where an energy meets its descent."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import optax
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from cem_jax.descent import (
    Descent,
    DescentConfig,
    StepSize,
    descend,
    identity,
    require_rule,
)
from cem_jax.energies import Energy, EnergyConfig, require_energy_config
from cem_jax.models.norm import RMSNorm
from cem_jax.ops.checks import require_count
from cem_jax.ops.constrain import constrain
from cem_jax.ops.dtypes import accumulation_dtype, require_floating, require_hidden
from cem_jax.ops.visibility import Sites, sites_or_dense


@dataclasses.dataclass(frozen=True)
class CEMConfig:
    """A CEM layer as data: the first three arguments of `CEMLayer` after the width."""

    energy: EnergyConfig
    descent: DescentConfig = DescentConfig()
    transformation: optax.GradientTransformation | None = None

    def build(self, dim: int, *, norm_eps: float, dtype: DTypeLike, rngs: nnx.Rngs) -> CEMLayer:
        """The layer of a model of width ``dim``."""
        return CEMLayer(
            dim,
            self.energy,
            self.descent,
            transformation=self.transformation,
            norm_eps=norm_eps,
            dtype=dtype,
            rngs=rngs,
        )


class CEMLayer(nnx.Module):
    """x^(0) = h;  x^(t+1) = x^(t) - eta_t P grad_u eps(u^(t) | c);  the output is x^(T).

    Equation (1), with u = norm(x) and c = norm(h) under one shared gain; `DescentConfig.norm_mode`
    has the other forms. The residual connection and the norm of a pre-norm transformer are in it:
    at T = 1 it replaces ``h + sublayer(norm(h))``. The context c is constant over the steps, and
    the training derivative flows through it.

    Args:
        dim: D.
        energy: builds the energy, such as `InteractionConfig` or `ElementwiseConfig`.
        descent: how it is lowered.
        transformation: the user's rule, any optax transformation of one position's gradient that
            comes before P and -eta, such as ``optax.clip_by_global_norm(1.0)`` or
            ``optax.scale_by_adam()``; not a whole optimiser such as ``optax.adam(0.1)``, which
            has its own minus sign. With a rule, the training derivative stops where an energy's
            gradient is exactly zero. Curvature histories (``scale_by_lbfgs``) have none anywhere.
        norm_eps: of the RMS norm.
        dtype: the dtype of the products; parameters and the carried x stay float32.
        rngs: the stream ``params`` draws the parameters.

    Parameters: ``norm.gain [D]`` unless there is no norm, those of ``energy``, ``step_size`` and
    ``preconditioner``.

    Raises:
        ValueError: an option of another kind or range; at a call, an ``h`` that is not a floating
            ``[B, L, D]``, sites that do not fit it, or what `descend` refuses.

    Source: arXiv 2605.07588.
    """

    def __init__(
        self,
        dim: int,
        energy: EnergyConfig,
        descent: DescentConfig | None = None,
        *,
        transformation: optax.GradientTransformation | None = None,
        norm_eps: float = 1e-5,
        dtype: DTypeLike = "float32",
        rngs: nnx.Rngs,
    ) -> None:
        require_count("dim", dim)
        require_energy_config("energy", energy)
        require_floating("dtype", dtype)
        self.dim = dim
        self.descent = DescentConfig() if descent is None else descent
        self.dtype = dtype
        if transformation is not None:
            require_rule(transformation, dim)
        self.user_transformation = transformation
        normed = self.descent.norm_mode != "none"
        self.norm = RMSNorm(dim, norm_eps) if normed else None
        self.energy: Energy = energy.build(dim, rngs=rngs)
        _require_parameters_only(self.energy)
        self.step_size = StepSize(self.descent.step_size, self.descent.steps)
        matrix = self.descent.preconditioner
        steps = self.descent.steps
        self.preconditioner = None if matrix is None else matrix.build(dim, steps=steps, rngs=rngs)

    def __call__(
        self, h: Float[Array, "B L D"], sites: Sites | None = None, *, steps: int | None = None
    ) -> Float[Array, "B L D"]:
        """The layer's output, in the dtype of ``h``.

        Args:
            h: ``[B, L, D]``.
            sites: positions and segments; by default each row is one document.
            steps: T, where it differs from the configured one.
        """
        return self.run(h, sites, steps=steps).x.astype(h.dtype)

    def run(
        self,
        h: Float[Array, "B L D"],
        sites: Sites | None = None,
        *,
        steps: int | None = None,
        trace: bool = False,
    ) -> Descent:
        """The descent itself; with ``trace`` the energies and gradient norms on the way."""
        require_hidden("h", h, self.dim)
        sites = sites_or_dense(h, sites)
        steps = self.descent.steps if steps is None else steps
        self.step_size.require(steps)
        if self.preconditioner is not None:
            self.preconditioner.require(steps)
        # A narrow residual stream is widened once, so that c and u^(0) are the same norm of it.
        h = constrain(h.astype(accumulation_dtype(h)), "B L D")
        c = h if self.norm is None else self.norm(h)
        context = self.energy.condition(c.astype(self.dtype), sites)

        def value(u: Array) -> Array:
            return self.energy(u.astype(self.dtype), context)

        start, energy, at = self._mode(value, h, c)
        result = descend(
            energy,
            start,
            steps=steps,
            transformation=self.transformation(),
            at=at,
            # A step with momentum and P is linear in the gradients and needs no guard.
            guard=self.user_transformation is not None,
            trace=trace,
            unroll=self.descent.unroll,
            remat=self.descent.remat,
        )
        x = result.x
        if self.descent.norm_mode == "once":
            x = h + (x - c)
        return result._replace(x=constrain(x, "B L D"))

    def transformation(self) -> optax.GradientTransformation:
        """The user's rule, then momentum, then P, then -eta."""
        beta = self.descent.momentum
        heavy_ball = optax.trace(beta) if beta else None
        parts = [self.user_transformation, heavy_ball, self.preconditioner, self.step_size]
        return optax.chain(*(_as_transformation(part) for part in parts if part is not None))

    def _mode(
        self, value: Callable[[Array], Array], h: Array, c: Array
    ) -> tuple[Array, Callable[[Array], Array], Callable[[Array], Array]]:
        """Where the descent starts, what it lowers, and where its gradient is taken."""
        norm, mode = self.norm, self.descent.norm_mode
        if norm is None:
            return h, value, identity
        if mode == "once":
            return c, value, identity
        if mode == "exact":
            return h, lambda x: value(norm(x)), identity
        return h, value, norm


def _require_parameters_only(energy: Energy) -> None:
    other = nnx.to_flat_state(nnx.state(energy, nnx.Not(nnx.Param)))
    if other:
        names = ", ".join(".".join(map(str, path)) for path, _ in other)
        raise ValueError(
            f"energy: got {type(energy).__name__} with the array or variable {names}, expected "
            f"parameters only (nnx.Param); make constants in condition() or keep them as floats."
        )


def _as_transformation(part: Any) -> optax.GradientTransformation:
    return part if isinstance(part, optax.GradientTransformation) else part.transformation()
