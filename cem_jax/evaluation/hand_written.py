"""CEM layers with their update written out: what the layers derived by autograd are timed beside.

The oracles of the certificate are independent of the layers; these are their equals in everything
but the derivation: the same products, layouts, dtypes and scan, and no derivative in the forward.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from cem_jax.descent import Preconditioner
from cem_jax.energies import ElementwiseEnergy, InteractionEnergy
from cem_jax.models import CEMConfig, CEMLayer
from cem_jax.ops.contract import contract
from cem_jax.ops.dtypes import accumulation_dtype
from cem_jax.ops.potentials import activate
from cem_jax.ops.remat import rematerialised
from cem_jax.ops.rotary import rotate, rotation
from cem_jax.ops.visibility import Sites, sites_or_dense

Update = Callable[[Array], Array]
"""``u [B, L, D] -> -grad_u eps(u | c)``, with the context already in it."""


@dataclasses.dataclass(frozen=True)
class HandWrittenConfig:
    """The config of a CEM layer, built as its hand-written form."""

    layer: CEMConfig

    def build(self, dim: int, *, norm_eps: float, dtype: DTypeLike, rngs: nnx.Rngs) -> HandWritten:
        """The layer of a model of width ``dim``."""
        return HandWritten(self.layer.build(dim, norm_eps=norm_eps, dtype=dtype, rngs=rngs))


class HandWritten(nnx.Module):
    """x <- x + eta_t P [attention or gated MLP of norm(x)], T times: equation (1), no `jax.grad`.

    Args:
        layer: whose parameters it has and whose output it gives: an interaction energy without
            bias, context score, learned temperature and diagonals per head, or an element-wise
            one; norm mode ``"default"``; no transformation of the user's, no momentum, and P not
            definite and one for all steps.

    Parameters: those of ``layer``.

    Raises:
        ValueError: for another layer.
    """

    def __init__(self, layer: CEMLayer) -> None:
        _require_written(layer)
        self.layer = layer

    def __call__(
        self, h: Float[Array, "B L D"], sites: Sites | None = None
    ) -> Float[Array, "B L D"]:
        """The layer's output; see `CEMLayer`."""
        layer, norm, descent = self.layer, self.layer.norm, self.layer.descent
        assert norm is not None
        sites = sites_or_dense(h, sites)
        start = h.astype(accumulation_dtype(h))
        update = _update(layer, norm(start).astype(layer.dtype), sites)

        def step(x: Array, index: Array) -> tuple[Array, None]:
            direction = update(norm(x).astype(layer.dtype)).astype(x.dtype)
            if layer.preconditioner is not None:
                direction = preconditioned(layer.preconditioner, direction)
            return x + layer.step_size(index, x.dtype) * direction, None

        body = rematerialised(step, descent.remat)
        unroll = min(descent.unroll, descent.steps)
        x, _ = jax.lax.scan(body, start, jnp.arange(descent.steps), unroll=unroll)
        return x.astype(h.dtype)


def attention_update(
    energy: InteractionEnergy, c: Float[Array, "B S D"], sites: Sites
) -> Callable[[Array], Array]:
    """Multi-head attention with W_V = W_K and W_O = W_Q^T; equations (3) to (5).

    The rotated keys are the values, and the readout is rotated back. With a shared diagonal,
    diag(d) sum_j (sum_h p_hij) c_j is added, and u_i^T diag(d) c_j to the scores of every head.
    """
    wq, wk = (w[...].astype(c.dtype) for w in (energy.wq, energy.wk))
    d = None if energy.d is None else energy.d[...].astype(c.dtype)[None, None]
    table = rotation(sites.position, energy.head_dim, energy.config.rotary, c.dtype)
    back = None if table is None else (table[0], -table[1])
    key = rotate(contract(c, wk), table)
    seen_sites = energy.config.visible.read(sites)
    mask = energy.config.visible.allowed(seen_sites, seen_sites)[:, None]
    seen = jnp.any(mask, axis=-1, keepdims=True)
    # A row that sees nothing has finite logits, whose softmax has a finite derivative.
    hidden = jnp.where(seen, -jnp.inf, 0.0).astype(accumulation_dtype(c))

    def update(u: Array) -> Array:
        query = rotate(contract(u, wq), table)
        scores = _scores(query, key)
        if d is not None:
            scores = scores + _wide("bld,bsd->bls", u * d, c)[:, None]
        logits = jnp.where(mask, scores / energy.temperature, hidden)
        probability = jax.nn.softmax(logits, axis=-1)
        read = _readout(probability.astype(key.dtype), key).astype(u.dtype)
        result = contract(rotate(read, back), wq, axes=2, y_end="back")
        if d is not None:
            summed = jnp.sum(probability, axis=1).astype(c.dtype)
            result = result + d * _wide("bls,bsd->bld", summed, c).astype(u.dtype)
        # Here and not in the probabilities, which would be kept twice for the training derivative.
        return jnp.where(seen[:, 0], result, 0)

    return update


def mlp_update(energy: ElementwiseEnergy, c: Float[Array, "B S D"]) -> Callable[[Array], Array]:
    """A gated MLP whose down projection is its up projection transposed; equation (6)."""
    quadratic, activation = energy.config.form == "quadratic", energy.config.activation
    gate_matrix, matrix = (w[...].astype(c.dtype) for w in (energy.gate, energy.up))
    gate = contract(c, gate_matrix)
    gate = activate(gate, activation) if quadratic else gate
    gate = gate.astype(accumulation_dtype(c))

    def update(u: Array) -> Array:
        up = contract(u, matrix).astype(gate.dtype)
        hidden = gate * (up if quadratic else activate(up, activation))
        return contract(hidden.astype(u.dtype), matrix, y_end="back")

    return update


def preconditioned(matrix: Preconditioner, g: Float[Array, "B L D"]) -> Float[Array, "B L D"]:
    """[diag(softplus(d)) + U V^T + V U^T] g, equation (8), as two thin products."""
    factors = (matrix.diagonal, matrix.left, matrix.right)
    diagonal, left, right = (factor[...].astype(g.dtype) for factor in factors)
    inner, outer = jnp.concatenate([right, left], 1), jnp.concatenate([left, right], 1)
    low_rank = contract(contract(g, inner), outer, y_end="back")
    return jax.nn.softplus(diagonal)[None, None] * g + low_rank


def _update(layer: CEMLayer, c: Array, sites: Sites) -> Update:
    if isinstance(layer.energy, InteractionEnergy):
        return attention_update(layer.energy, c, sites)
    assert isinstance(layer.energy, ElementwiseEnergy)
    return mlp_update(layer.energy, c)


def _scores(query: Float[Array, "B L H K"], key: Float[Array, "B S G K"]) -> Array:
    batch, length, heads, width = query.shape
    groups = key.shape[2]
    grouped = query.reshape(batch, length, groups, heads // groups, width)
    return _wide("blgek,bsgk->bgels", grouped, key).reshape(batch, heads, length, key.shape[1])


def _readout(probability: Float[Array, "B H L S"], key: Float[Array, "B S G K"]) -> Array:
    batch, heads, length, keys = probability.shape
    groups, width = key.shape[2:]
    grouped = probability.reshape(batch, groups, heads // groups, length, keys)
    read = _wide("bgels,bsgk->bgelk", grouped, key).reshape(batch, heads, length, width)
    return jnp.swapaxes(read, 1, 2)


def _wide(pattern: str, x: Array, y: Array) -> Array:
    """A product that is summed in float32 or wider."""
    return jnp.einsum(pattern, x, y, preferred_element_type=accumulation_dtype(x))


def _require_written(layer: CEMLayer) -> None:
    energy, matrix = layer.energy, layer.preconditioner
    written = isinstance(energy, ElementwiseEnergy)
    if isinstance(energy, InteractionEnergy):
        options = energy.config
        more = (options.relative_bias, options.context_score)
        plain = more == (None, None) and not options.learn_temperature
        written = plain and options.diagonal != "head"
    if (
        not written
        or layer.descent.norm_mode != "default"
        or layer.user_transformation is not None
        or layer.descent.momentum
        or (matrix is not None and (matrix.config.definite or matrix.config.learn == "step"))
    ):
        raise ValueError(
            f"layer: got {type(energy).__name__} with {getattr(energy, 'config', None)} and "
            f"{layer.descent}, expected a layer that is written by hand: attention without bias, "
            f"context score, learned temperature and diagonals per head, or a gated MLP, in norm "
            f"mode 'default' without momentum, with P not definite and one for all steps; take "
            f"`evaluation.certificate` for the others."
        )
