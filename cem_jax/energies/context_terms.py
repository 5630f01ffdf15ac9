"""Score terms that shape the softmax and carry no value; equation (5b)."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from cem_jax.ops.checks import require_count
from cem_jax.ops.constrain import constrain
from cem_jax.ops.contract import contract
from cem_jax.ops.parameters import fan_in, parameter
from cem_jax.ops.rotary import Rotary, rotate, rotation
from cem_jax.ops.visibility import Sites, Visible


def require_relative_bias(window: int | None, visible: Visible) -> None:
    """Refuse a length of a relative bias that is none, or one where distances may be negative."""
    if window is None:
        return
    require_count("relative_bias", window)
    if not visible.causal:
        raise ValueError(
            "relative_bias: got one with bidirectional attention, expected a causal one, since the "
            "bias is a function of a distance >= 0; drop one of the two."
        )


class RelativeBias(nnx.Module):
    """b_h[min(position_i - position_j, W - 1)], added to the logits.

    Parameters: ``table [H, W]``, zero at the start.
    """

    def __init__(self, heads: int, window: int) -> None:
        self.table = parameter(jnp.zeros((heads, window)), "H W")


@dataclasses.dataclass(frozen=True)
class ContextScoreConfig:
    """The options of `ContextScore`.

    Attributes:
        width: K', the width of a context head, at least 1.
        rotary: how its queries and keys are rotated, independent of the energy's own.
    """

    width: int = 32
    rotary: Rotary = Rotary()

    def __post_init__(self) -> None:
        require_count("context score width", self.width)
        self.rotary.width(self.width)


class ContextScore(nnx.Module):
    """(R_i Wq'_h c_i)^T (R_j Wk'_h c_j) / sqrt(K'), added to the logits.

    A function of the context alone: it is computed once, its keys are cached, and energy and
    gradient stay exact.

    Parameters: ``wq [D, H, K']``, ``wk [D, G, K']``.
    """

    def __init__(
        self, dim: int, heads: int, groups: int, config: ContextScoreConfig, *, rngs: nnx.Rngs
    ) -> None:
        self.config = config
        self.wq = parameter(fan_in(rngs, (dim, heads, config.width), dim), "D H K")
        self.wk = parameter(fan_in(rngs, (dim, groups, config.width), dim), "D G K")

    def __call__(self, c: Float[Array, "B S D"], sites: Sites) -> tuple[Array, Array]:
        """Rotated context queries ``[B, S, H, K']`` and keys ``[B, S, G, K']``, not yet scaled."""
        table = rotation(sites.position, self.config.width, self.config.rotary, c.dtype)
        query = contract(c, self.wq[...].astype(c.dtype))
        key = contract(c, self.wk[...].astype(c.dtype))
        query, key = rotate(query, table), rotate(key, table)
        return constrain(query, "B L H K"), constrain(key, "B S G K")
