"""Parameters, from the abstract model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from flax import nnx

from cem_jax.models.config import TransformerConfig
from cem_jax.models.transformer import Transformer


class ParameterCount(NamedTuple):
    """How many parameters a model has.

    Attributes:
        total: all of them, norm gains included.
        embedding: those of the embedding and of the readout where it is not tied.
    """

    total: int
    embedding: int

    @property
    def without_embedding(self) -> int:
        """The blocks and the last norm."""
        return self.total - self.embedding


def count_parameters(config: TransformerConfig) -> ParameterCount:
    """The parameters of a model, from its shapes alone."""
    abstract = nnx.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0)))
    tree = nnx.to_pure_dict(nnx.state(abstract, nnx.Param))
    tables = [leaf for name, leaf in tree.items() if name in ("embedding", "readout")]
    return ParameterCount(_size(tree), _size(tables))


def count_module_parameters(build: Callable[[nnx.Rngs], nnx.Module]) -> int:
    """The parameters of any module, from its shapes alone.

    Args:
        build: constructs it, such as ``lambda rngs: CEMLayer(256, MemoryConfig(64), rngs=rngs)``.
    """
    return count_size(nnx.eval_shape(lambda: build(nnx.Rngs(0))))


def count_size(module: Any) -> int:
    """The parameters of a module that is there, abstract or not."""
    return _size(nnx.state(module, nnx.Param))


def _size(tree: Any) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))
