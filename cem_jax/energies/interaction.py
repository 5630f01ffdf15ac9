"""The interaction energy: one gradient step on it is multi-head attention with tied weights."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, NamedTuple, get_args

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from cem_jax.energies.base import Energy
from cem_jax.energies.context_terms import (
    ContextScore,
    ContextScoreConfig,
    RelativeBias,
    require_relative_bias,
)
from cem_jax.ops.attention_backend import AttentionBackend, choose
from cem_jax.ops.attention_energy import attention_energy
from cem_jax.ops.attention_terms import AttentionTerms
from cem_jax.ops.checks import (
    head_width,
    require_heads,
    require_kind,
    require_kind_or_none,
    require_one_of,
    require_positive,
)
from cem_jax.ops.constrain import constrain
from cem_jax.ops.contract import contract
from cem_jax.ops.dtypes import accumulation_dtype
from cem_jax.ops.parameters import fan_in, parameter
from cem_jax.ops.rotary import Rotary, rotate, rotation
from cem_jax.ops.visibility import Sites, Visible, of_keys

Diagonal = Literal["none", "head", "shared"]


@dataclasses.dataclass(frozen=True)
class InteractionConfig:
    """The options of equations (2) to (5b).

    Attributes:
        heads: H.
        key_heads: G, keys shared by groups of H / G heads; None is H.
        head_dim: K; None is D / H.
        diagonal: ``"none"`` A_h = Wq_h^T Wk_h; ``"head"`` adds diag(d_h); ``"shared"`` one
            diag(d) for all heads. d starts at zero. A shared diagonal doubles the FLOPs of scores
            and readout, one per head multiplies them by 1 + H.
        rotary: how queries and keys are rotated.
        visible: which positions see which.
        temperature: tau, positive; None is sqrt(K).
        learn_temperature: whether tau is a parameter, kept positive as exp(raw).
        relative_bias: W, the length of a learned bias per head and distance, zero at the start
            (256 is usual); None has none.
        context_score: a score of the context alone, of its own width; None has none.
        backend: which implementation computes the energy, the one switch for it; one that cannot,
            here or with these options, is replaced and the reason logged; see
            `ops.attention_backend`.
    """

    heads: int
    key_heads: int | None = None
    head_dim: int | None = None
    diagonal: Diagonal = "none"
    rotary: Rotary = Rotary()
    visible: Visible = Visible()
    temperature: float | None = None
    learn_temperature: bool = False
    relative_bias: int | None = None
    context_score: ContextScoreConfig | None = None
    backend: AttentionBackend = "auto"

    def __post_init__(self) -> None:
        require_heads(self.heads, self.key_heads, self.head_dim)
        require_one_of("diagonal", self.diagonal, get_args(Diagonal))
        require_one_of("backend", self.backend, get_args(AttentionBackend))
        require_kind("rotary", self.rotary, Rotary)
        require_kind("visible", self.visible, Visible)
        require_kind_or_none("context_score", self.context_score, ContextScoreConfig)
        if self.temperature is not None:
            require_positive("temperature", self.temperature)
        require_relative_bias(self.relative_bias, self.visible)

    def width(self, dim: int) -> int:
        """K for a model of width ``dim``."""
        width = head_width(dim, self.heads, self.head_dim)
        self.rotary.width(width)
        return width

    def build(self, dim: int, *, rngs: nnx.Rngs) -> InteractionEnergy:
        """The energy for a model of width ``dim``."""
        return InteractionEnergy(dim, self, rngs=rngs)


class InteractionContext(NamedTuple):
    """Keys and all else of `InteractionEnergy` that depends on the context alone."""

    key: Float[Array, "B S G K"]
    key_sites: Sites
    query_sites: Sites
    rotation: tuple[Array, Array] | None
    values: Float[Array, "B S D"] | None
    context_query: Float[Array, "B S H C"] | None
    context_key: Float[Array, "B S G C"] | None


class InteractionEnergy(Energy):
    """eps_i = -tau sum_h log sum_{j<=i} exp(s_hij / tau), s_hij = u_i^T A_h c_j; (2) to (5b).

    A_h = Wq_h^T Wk_h, with diag(d_h) or diag(d) added and with rotary position embedding as the
    config says. The negative gradient is multi-head attention with W_V = W_K and W_O = W_Q^T: the
    rotated keys are the values and the readout is rotated back. Concave in u with keys fixed, and
    unbounded below.

    Args:
        dim: D.
        config: the options.
        rngs: the stream ``params`` draws W_Q and W_K, normal with variance 1 / D.

    Parameters: ``wq [D, H, K]``, ``wk [D, G, K]``; with a diagonal ``d [H, D]`` or ``[D]``; with a
    learned temperature ``log_temperature []``; those of the context terms.

    Source: arXiv 2605.07588; the context terms are ours.
    """

    def __init__(self, dim: int, config: InteractionConfig, *, rngs: nnx.Rngs) -> None:
        width = config.width(dim)
        groups = config.key_heads or config.heads
        self.config = config
        self.head_dim = width
        self.wq = parameter(fan_in(rngs, (dim, config.heads, width), dim), "D H K")
        self.wk = parameter(fan_in(rngs, (dim, groups, width), dim), "D G K")
        self.temperature = config.temperature or math.sqrt(width)
        log_temperature = jnp.log(jnp.float32(self.temperature))
        learned = config.learn_temperature
        self.log_temperature = parameter(log_temperature, "") if learned else None
        self.d = _diagonal(config, dim)
        bias, score = config.relative_bias, config.context_score
        self.bias = None if bias is None else RelativeBias(config.heads, bias)
        self.score = (
            None if score is None else ContextScore(dim, config.heads, groups, score, rngs=rngs)
        )

    def condition(self, c: Float[Array, "B S D"], sites: Sites) -> InteractionContext:
        """Rotated keys, and ``c`` itself where a diagonal needs it."""
        table = rotation(sites.position, self.head_dim, self.config.rotary, c.dtype)
        # Where a mesh spreads positions, this is all that is gathered: one tensor, or two.
        key = constrain(rotate(contract(c, self.wk[...].astype(c.dtype)), table), "B S G K")
        score = (None, None) if self.score is None else self.score(c, sites)
        values = None if self.d is None else constrain(c, "B S D")
        return InteractionContext(key, of_keys(sites), sites, table, values, *score)

    def __call__(
        self, u: Float[Array, "B L D"], context: InteractionContext
    ) -> Float[Array, "B L"]:
        """The energy of each position; see the class."""
        terms, visible = self.terms(u, context), self.config.visible
        sites = context.query_sites, context.key_sites
        choice = choose(self.config.backend, visible, terms, *sites)
        return attention_energy(terms, *sites, visible, choice.backend)

    def terms(self, u: Float[Array, "B L D"], context: InteractionContext) -> AttentionTerms:
        """The operands of the log-sum-exp: queries of u, and what the context gives."""
        query = contract(u, self.wq[...].astype(u.dtype))
        return AttentionTerms(
            query=constrain(rotate(query, context.rotation), "B L H K"),
            key=context.key,
            temperature=self._temperature(accumulation_dtype(u)),
            weight=self._weight(u),
            context=context.values,
            bias=None if self.bias is None else self.bias.table[...],
            context_query=context.context_query,
            context_key=context.context_key,
        )

    def _temperature(self, dtype: jnp.dtype) -> Float[Array, ""]:
        if self.log_temperature is None:
            return jnp.asarray(self.temperature, dtype)
        return jnp.exp(self.log_temperature[...].astype(dtype))

    def _weight(self, u: Float[Array, "B L D"]) -> Array | None:
        if self.d is None:
            return None
        d = self.d[...].astype(u.dtype)
        return u * d[None, None] if d.ndim == 1 else u[:, :, None] * d[None, None]


def _diagonal(config: InteractionConfig, dim: int) -> nnx.Param | None:
    if config.diagonal == "head":
        return parameter(jnp.zeros((config.heads, dim)), "H D")
    return parameter(jnp.zeros((dim,)), "D") if config.diagonal == "shared" else None
