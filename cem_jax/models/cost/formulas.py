"""The matrix products and the cache of each known sublayer, as formulas.

A formula holds for the exact type of a config: what a subclass computes is its own affair.
Whatever has none is counted from its jaxpr.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from cem_jax.descent import PreconditionerConfig
from cem_jax.descent.per_position import PerPosition
from cem_jax.energies import (
    ElementwiseConfig,
    EnergyConfig,
    InteractionConfig,
    MemoryConfig,
    SumConfig,
)
from cem_jax.models.config import SublayerConfig
from cem_jax.models.cost.traced import count_flops
from cem_jax.models.layer import CEMConfig
from cem_jax.models.llama import MHAConfig, SwiGLUConfig
from cem_jax.ops.checks import head_width
from cem_jax.ops.visibility import Visible


class Product(NamedTuple):
    """Multiplications of matrix products, ``size`` of them for each token.

    Attributes:
        size: for each token, or for each pair of positions.
        over: the rule of visibility of those pairs; None counts tokens.
    """

    size: int
    over: Visible | None = None


class Formula(NamedTuple):
    """What a sublayer asks for in its forward pass, and keeps of each token for decoding.

    Attributes:
        products: each of two operands that both move in training, since even the first sublayer's
            input is a parameter: the embedding.
        cache: numbers per token, in the dtype of the products.
    """

    products: tuple[Product, ...]
    cache: int = 0


def formula(config: SublayerConfig, dim: int) -> Formula | None:
    """The formula of a sublayer of width D, if it has one."""
    rule = _SUBLAYERS.get(type(config))
    return None if rule is None else rule(config, dim)


def _mha(config: MHAConfig, dim: int) -> Formula:
    """Projections to q, k, v and back; one score and one readout; keys and values are cached."""
    width = head_width(dim, config.heads, config.head_dim)
    queries, keys = config.heads * width, (config.key_heads or config.heads) * width
    projections = Product(2 * dim * (queries + keys))
    return Formula((projections, Product(2 * queries, config.visible)), cache=2 * keys)


def _swiglu(config: SwiGLUConfig, dim: int) -> Formula:
    return Formula((Product(3 * dim * config.features),))


def _cem(config: CEMConfig, dim: int) -> Formula | None:
    """The energy's products, and in each step those of P: two thin ones with each factor."""
    descent = config.descent
    energy = _energy(config.energy, dim, descent.steps)
    if energy is None or _multiplies(config.transformation, dim):
        return None
    thin = _thin(descent.preconditioner, dim)
    return energy._replace(products=(*energy.products, Product(descent.steps * thin)))


def _thin(config: PreconditionerConfig | None, dim: int) -> int:
    return 0 if config is None else 4 * dim * config.rank


def _multiplies(rule: optax.GradientTransformation | None, dim: int) -> bool:
    """Whether the user's rule has matrix products of its own."""
    if rule is None:
        return False
    own = PerPosition(rule)

    def update(gradient: jax.Array) -> jax.Array:
        return own.update(gradient, own.init(gradient), gradient, step=jnp.asarray(0))[0]

    return count_flops(update, jax.ShapeDtypeStruct((1, 1, dim), jnp.float32)) > 0


def _energy(config: EnergyConfig, dim: int, steps: int) -> Formula | None:
    """The products of ``condition``, once, and of the energy's gradient, in each of T steps."""
    rule = _ENERGIES.get(type(config))
    return None if rule is None else rule(config, dim, steps)


def _interaction(config: InteractionConfig, dim: int, steps: int) -> Formula:
    """1 + 2T projections and T passes of score and readout; the keys are the values.

    A diagonal scores and reads the context itself, of width D: once for all heads where it is
    shared, once for each otherwise. A context score is projected once and scored in each pass.
    """
    heads, groups = config.heads, config.key_heads or config.heads
    width = config.width(dim)
    score = config.context_score
    context = 0 if score is None else score.width
    # Key projections; the context score's two; the query's and the readout's in each step.
    projections = dim * (groups * width + (heads + groups) * context + steps * 2 * heads * width)
    diagonals = {"none": 0, "shared": 1, "head": heads}[config.diagonal]
    core = 2 * heads * width + 2 * diagonals * dim + heads * context
    cache = groups * (width + context) + (dim if diagonals else 0)
    return Formula((Product(projections), Product(steps * core, config.visible)), cache)


def _elementwise(config: ElementwiseConfig, dim: int, steps: int) -> Formula:
    """1 + 2T products; the gate is of the position's own context, so that nothing is cached."""
    return Formula((Product((1 + 2 * steps) * dim * config.features),))


def _memory(config: MemoryConfig, dim: int, steps: int) -> Formula:
    return Formula((Product(2 * steps * dim * config.patterns),))


def _sum(config: SumConfig, dim: int, steps: int) -> Formula | None:
    terms = [_energy(term, dim, steps) for term in config.terms]
    known = [term for term in terms if term is not None]
    if len(known) < len(terms):
        return None
    products = tuple(product for term in known for product in term.products)
    return Formula(products, sum(term.cache for term in known))


_SUBLAYERS: dict[type, Callable[[Any, int], Formula | None]] = {
    MHAConfig: _mha,
    SwiGLUConfig: _swiglu,
    CEMConfig: _cem,
}
_ENERGIES: dict[type, Callable[[Any, int, int], Formula | None]] = {
    InteractionConfig: _interaction,
    ElementwiseConfig: _elementwise,
    MemoryConfig: _memory,
    SumConfig: _sum,
}
