"""A learned associative memory: an energy beyond the paper, and the example of adding one."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Float

from cem_jax.energies.base import Energy
from cem_jax.ops.checks import require_count
from cem_jax.ops.contract import contract
from cem_jax.ops.dtypes import accumulation_dtype
from cem_jax.ops.parameters import fan_in, parameter


@dataclasses.dataclass(frozen=True)
class MemoryConfig:
    """``patterns``: M, how many patterns are stored; at least 1."""

    patterns: int

    def __post_init__(self) -> None:
        require_count("patterns", self.patterns)

    def build(self, dim: int, *, rngs: nnx.Rngs) -> MemoryEnergy:
        """The energy for a model of width ``dim``."""
        return MemoryEnergy(dim, self, rngs=rngs)


class MemoryEnergy(Energy):
    """eps = -log sum_m exp(Xi_m . u), a log-sum-exp over stored patterns; it needs no context.

    The negative gradient is Xi^T softmax(Xi u), the retrieval of a modern Hopfield network whose
    patterns are learned.

    Parameters: ``patterns [D, M]``, normal with variance 1 / D.

    Source: Ramsauer et al., arXiv 2008.02217.
    """

    def __init__(self, dim: int, config: MemoryConfig, *, rngs: nnx.Rngs) -> None:
        self.patterns = parameter(fan_in(rngs, (dim, config.patterns), dim), "D M")

    def __call__(self, u: Float[Array, "B L D"], context: Any) -> Float[Array, "B L"]:
        """The energy of each position; see the class."""
        scores = contract(u, self.patterns[...].astype(u.dtype))
        return -jax.nn.logsumexp(scores.astype(accumulation_dtype(scores)), axis=-1)
