"""What a model costs: parameters from the abstract model, FLOPs from the jaxpr.

Nothing is allocated and no module states its own figures, so that a new energy is counted as it
is. Compiled counts would not do: they count the body of a scan once. A shared diagonal doubles
the FLOPs of an attention's scores and readout, which these counts show.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax.extend.core import Jaxpr
from jax.interpreters.partial_eval import dce_jaxpr

from cem_jax.models.config import TransformerConfig
from cem_jax.models.transformer import Transformer
from cem_jax.ops.jaxprs import inner_jaxprs


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
    return _size(nnx.state(nnx.eval_shape(lambda: build(nnx.Rngs(0))), nnx.Param))


def count_forward_flops(config: TransformerConfig, *, batch: int, length: int) -> int:
    """The matrix-product FLOPs of one forward pass over ``[batch, length]`` tokens."""
    abstract = nnx.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0)))
    graph, state = nnx.split(abstract)
    tokens = jax.ShapeDtypeStruct((batch, length), jnp.int32)
    return count_flops(lambda state, tokens: nnx.merge(graph, state)(tokens), state, tokens)


def count_flops(function: Callable[..., Any], *arguments: Any) -> int:
    """The FLOPs of the matrix products that a function asks for: 2 M N K each.

    Counts every `dot_general` of the jaxpr, times the length of the scans around it; of
    conditional branches the dearest. Masked-out work counts, fused or not. Element-wise work does
    not.

    Args:
        function: traced by `jax.make_jaxpr`.
        arguments: arrays or shapes.

    Returns:
        FLOPs, with a multiplication and an addition each counted.

    Raises:
        ValueError: for matrix products inside a `while` loop, whose length no one knows.
    """
    closed = jax.make_jaxpr(function)(*arguments)
    # What nobody uses is not computed: the energy's value, where only its gradient is asked for.
    live, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.out_avals))
    return _flops(live)


def _flops(jaxpr: Jaxpr) -> int:
    return sum(_equation_flops(equation) for equation in jaxpr.eqns)


def _equation_flops(equation: Any) -> int:
    name, parameters = equation.primitive.name, equation.params
    if name == "dot_general":
        return _dot_flops(equation)
    inner = [_flops(jaxpr) for jaxpr in inner_jaxprs(equation)]
    if name == "scan":
        return parameters["length"] * sum(inner)
    if name == "cond":
        return max(inner)
    if name == "while" and any(inner):
        raise ValueError(
            "count_flops: got matrix products inside a while loop, expected a scan, whose length "
            "is known; write the loop with jax.lax.scan or a static fori_loop."
        )
    return sum(inner)


def _dot_flops(equation: Any) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    depth = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
    return 2 * depth * math.prod(equation.outvars[0].aval.shape)


def _size(tree: Any) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))
