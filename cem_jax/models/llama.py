"""The baseline's sublayers: multi-head attention and SwiGLU, written by hand as in Llama."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from cem_jax.energies import RelativeBias, require_relative_bias
from cem_jax.models.norm import RMSNorm
from cem_jax.ops.attention_terms import relative_bias
from cem_jax.ops.checks import head_width, require_count, require_heads
from cem_jax.ops.constrain import constrain
from cem_jax.ops.contract import contract
from cem_jax.ops.dtypes import require_hidden
from cem_jax.ops.parameters import fan_in, parameter
from cem_jax.ops.rotary import Rotary, rotate, rotation
from cem_jax.ops.visibility import Sites, Visible, of_keys, sites_or_dense


@dataclasses.dataclass(frozen=True)
class MHAConfig:
    """Multi-head attention with grouped keys.

    Attributes:
        heads: H.
        key_heads: G; None is H.
        head_dim: K; None is D / H.
        rotary: how queries and keys are rotated.
        visible: which positions see which.
        relative_bias: W, the length of a learned table by distance that is added to the logits,
            as in `InteractionConfig`, so that both can have it; None for none, as in Llama.
    """

    heads: int
    key_heads: int | None = None
    head_dim: int | None = None
    rotary: Rotary = Rotary()
    visible: Visible = Visible()
    relative_bias: int | None = None

    def __post_init__(self) -> None:
        require_heads(self.heads, self.key_heads, self.head_dim)
        require_relative_bias(self.relative_bias, self.visible)

    def build(self, dim: int, *, norm_eps: float, dtype: DTypeLike, rngs: nnx.Rngs) -> MHASublayer:
        """The sublayer of a model of width ``dim``."""
        return MHASublayer(dim, self, norm_eps=norm_eps, dtype=dtype, rngs=rngs)


class MHASublayer(nnx.Module):
    """h + W_O softmax(q k^T / sqrt(K)) v with q, k rotated and all of norm(h): Llama's attention.

    Args:
        dim: D.
        config: the options.
        norm_eps: of the RMS norm.
        dtype: of the products.
        rngs: the stream ``params`` draws the weights, normal with variance 1 / fan-in.

    Parameters: ``norm.gain [D]``, ``wq [D, H, K]``, ``wk, wv [D, G, K]``, ``wo [H, K, D]``;
    with a relative bias ``bias.table [H, W]``.

    Source: Touvron et al., arXiv 2302.13971.
    """

    def __init__(
        self, dim: int, config: MHAConfig, *, norm_eps: float, dtype: DTypeLike, rngs: nnx.Rngs
    ) -> None:
        heads, groups = config.heads, config.key_heads or config.heads
        width = head_width(dim, heads, config.head_dim)
        config.rotary.width(width)
        self.dim, self.config, self.dtype = dim, config, dtype
        self.norm = RMSNorm(dim, norm_eps)
        self.wq = parameter(fan_in(rngs, (dim, heads, width), dim), "D H K")
        self.wk = parameter(fan_in(rngs, (dim, groups, width), dim), "D G K")
        self.wv = parameter(fan_in(rngs, (dim, groups, width), dim), "D G K")
        self.wo = parameter(fan_in(rngs, (heads, width, dim), heads * width), "H K D")
        window = config.relative_bias
        self.bias = None if window is None else RelativeBias(heads, window)

    def __call__(
        self, h: Float[Array, "B L D"], sites: Sites | None = None
    ) -> Float[Array, "B L D"]:
        """The sublayer's output; a padding query attends to nothing and keeps its input."""
        require_hidden("h", h, self.dim)
        sites = sites_or_dense(h, sites)
        h = constrain(h, "B L D")
        c = self.norm(h).astype(self.dtype)
        table = rotation(sites.position, self.wq.shape[-1], self.config.rotary, c.dtype)
        weights = (w[...].astype(c.dtype) for w in (self.wq, self.wk, self.wv))
        query, key, value = (contract(c, w) for w in weights)
        query = constrain(rotate(query, table), "B L H K")
        key, value = (constrain(x, "B S G K") for x in (rotate(key, table), value))
        read_sites = self.config.visible.read(sites)
        key_sites = of_keys(read_sites)
        mask = self.config.visible.allowed(read_sites, key_sites)
        bias = None
        if self.bias is not None:
            bias = relative_bias(self.bias.table[...].astype(c.dtype), read_sites, key_sites)
        read = jax.nn.dot_product_attention(query, key, value, bias, mask=mask[:, None])
        # The library gives a row without any key the mean of all values.
        read = jnp.where(jnp.any(mask, axis=-1)[:, :, None, None], read, 0)
        out = contract(read, self.wo[...].astype(c.dtype), axes=2)
        return constrain(h + out.astype(h.dtype), "B L D")


@dataclasses.dataclass(frozen=True)
class SwiGLUConfig:
    """A gated MLP; ``features`` is F."""

    features: int

    def __post_init__(self) -> None:
        require_count("features", self.features)

    def build(
        self, dim: int, *, norm_eps: float, dtype: DTypeLike, rngs: nnx.Rngs
    ) -> SwiGLUSublayer:
        """The sublayer of a model of width ``dim``."""
        return SwiGLUSublayer(dim, self, norm_eps=norm_eps, dtype=dtype, rngs=rngs)


class SwiGLUSublayer(nnx.Module):
    """h + W_down^T [silu(W_gate c) * (W_up c)] with c = norm(h): Llama's MLP.

    Args:
        dim: D.
        config: the options.
        norm_eps: of the RMS norm.
        dtype: of the products.
        rngs: the stream ``params`` draws the weights, normal with variance 1 / fan-in.

    Parameters: ``norm.gain [D]``, ``gate, up [D, F]``, ``down [F, D]``.

    Source: Shazeer, arXiv 2002.05202.
    """

    def __init__(
        self, dim: int, config: SwiGLUConfig, *, norm_eps: float, dtype: DTypeLike, rngs: nnx.Rngs
    ) -> None:
        features = config.features
        self.dim, self.dtype = dim, dtype
        self.norm = RMSNorm(dim, norm_eps)
        self.gate = parameter(fan_in(rngs, (dim, features), dim), "D F")
        self.up = parameter(fan_in(rngs, (dim, features), dim), "D F")
        self.down = parameter(fan_in(rngs, (features, dim), features), "F D")

    def __call__(
        self, h: Float[Array, "B L D"], sites: Sites | None = None
    ) -> Float[Array, "B L D"]:
        """The sublayer's output; it does not look at ``sites``."""
        require_hidden("h", h, self.dim)
        h = constrain(h, "B L D")
        c = self.norm(h).astype(self.dtype)
        gate, up, down = (w[...].astype(c.dtype) for w in (self.gate, self.up, self.down))
        hidden = jax.nn.silu(contract(c, gate)) * contract(c, up)
        return constrain(h + contract(hidden, down).astype(h.dtype), "B L D")
