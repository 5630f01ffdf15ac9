"""Element-wise energies: one gradient step on them is a gated MLP with tied projections."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from cem_jax.energies.base import Energy
from cem_jax.ops.checks import require_count, require_one_of
from cem_jax.ops.contract import contract
from cem_jax.ops.dtypes import accumulation_dtype
from cem_jax.ops.parameters import fan_in, parameter
from cem_jax.ops.potentials import (
    Activation,
    ElementwiseBackend,
    activate,
    potential,
    require_activation,
)
from cem_jax.ops.visibility import Sites

Form = Literal["nonlinear", "quadratic"]


@dataclasses.dataclass(frozen=True)
class ElementwiseConfig:
    """The options of equation (6).

    Attributes:
        features: F, the feed-forward width.
        form: where the activation stands; see `ElementwiseEnergy`.
        activation: phi.
        backend: ``"given"`` or ``"plain"``; see `ops.potentials.potential`.
    """

    features: int
    form: Form = "nonlinear"
    activation: Activation = "silu"
    backend: ElementwiseBackend = "given"

    def __post_init__(self) -> None:
        require_count("features", self.features)
        require_one_of("form", self.form, get_args(Form))
        require_one_of("backend", self.backend, get_args(ElementwiseBackend))
        require_activation(self.activation)

    def build(self, dim: int, *, rngs: nnx.Rngs) -> ElementwiseEnergy:
        """The energy for a model of width ``dim``."""
        return ElementwiseEnergy(dim, self, rngs=rngs)


class ElementwiseEnergy(Energy):
    """A gated MLP as an energy; equation (6).

    ``"nonlinear"``: eps = -sum_f (Wg c)_f Phi((Wu u)_f), -grad = Wu^T [(Wg c) * phi(Wu u)].
    ``"quadratic"``: eps = -1/2 sum_f phi(Wg c)_f (Wu u)_f^2, -grad = Wu^T [phi(Wg c) * (Wu u)].
    Both are SwiGLU with the down projection tied at T = 1 and differ from T = 2 on.

    Args:
        dim: D.
        config: the options.
        rngs: the stream ``params`` draws both matrices, normal with variance 1 / D.

    Parameters: ``gate [D, F]``, ``up [D, F]``.

    Source: arXiv 2605.07588.
    """

    def __init__(self, dim: int, config: ElementwiseConfig, *, rngs: nnx.Rngs) -> None:
        self.config = config
        self.gate = parameter(fan_in(rngs, (dim, config.features), dim), "D F")
        self.up = parameter(fan_in(rngs, (dim, config.features), dim), "D F")

    def condition(self, c: Float[Array, "B S D"], sites: Sites) -> Float[Array, "B S F"]:
        """The gate: a function of the position's own context, once for all steps."""
        gate = contract(c, self.gate[...].astype(c.dtype))
        if self.config.form == "quadratic":
            return activate(gate, self.config.activation)
        return gate

    def __call__(
        self, u: Float[Array, "B L D"], context: Float[Array, "B L F"]
    ) -> Float[Array, "B L"]:
        """The energy of each position; see the class."""
        up = contract(u, self.up[...].astype(u.dtype))
        up, gate = (x.astype(accumulation_dtype(x)) for x in (up, context))
        if self.config.form == "quadratic":
            return -jnp.sum(gate * jnp.square(up), axis=-1) / 2
        value = potential(up, self.config.activation, self.config.backend)
        return -jnp.sum(gate * value, axis=-1)
