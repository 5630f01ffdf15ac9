"""Bytes that a training step keeps of its forward pass, from the derivative itself.

No formula says them: which element-wise values are kept, and in which dtype, is decided by the
derivative rules of JAX and of the energy's backend, and they make up half of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal
from jaxtyping import Array

from cem_jax.models.config import SublayerConfig, TransformerConfig
from cem_jax.models.cost.abstract import as_function, build_abstract, stream
from cem_jax.ops.norms import rms_norm
from cem_jax.ops.readout import readout_cross_entropy
from cem_jax.ops.remat import rematerialised


def sublayer_activation_bytes(
    part: SublayerConfig, config: TransformerConfig, *, batch: int, length: int
) -> int:
    """What one sublayer of a model keeps, its input included: on its own backend, after remat."""
    function, parameters = as_function(build_abstract(part, config.dim, config.dtype))
    function = rematerialised(function, config.remat)
    return kept_bytes(function, parameters, stream(batch, length, config.dim))


def readout_activation_bytes(config: TransformerConfig, *, batch: int, length: int) -> int:
    """What the last norm and the loss keep.

    The loss takes its derivative along with its value: it keeps the readout's gradient, ``[V, D]``
    in float32, and no logits.
    """

    def loss(parameters: tuple[Array, Array], h: Array) -> Array:
        gain, matrix = parameters
        hidden = rms_norm(h, gain, config.norm_eps).astype(config.dtype)
        tokens = jnp.zeros((batch, length), jnp.int32)
        return readout_cross_entropy(hidden, matrix.astype(config.dtype), tokens, tokens == 0)[0]

    shapes = (config.dim,), (config.vocab_size, config.dim)
    parameters = tuple(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes)
    return kept_bytes(loss, parameters, stream(batch, length, config.dim))


def kept_bytes(function: Callable[[Any, Array], Array], parameters: Any, h: Any) -> int:
    """The bytes that the reverse derivative of ``function(parameters, h)`` keeps of ``h``.

    Every array that depends on ``h`` and that the derivative reads again, ``h`` included, each
    once. Parameters, copies of them in another dtype and masks are not counted. Stacked, scanned
    blocks of a compiled program keep just this; straight code may be fused and keep less, and a
    CPU, which widens bfloat16, keeps more.

    Args:
        function: of parameters and the residual stream.
        parameters: their shapes.
        h: its shape.
    """

    def kept(h: Array, parameters: Any) -> list[Array]:
        return jax.tree.leaves(jax.vjp(function, parameters, h)[1])

    jaxpr = jax.make_jaxpr(kept)(h, parameters).jaxpr
    moving = {jaxpr.invars[0]}
    for equation in jaxpr.eqns:
        if any(_among(variable, moving) for variable in equation.invars):
            moving.update(equation.outvars)
    found = {variable for variable in jaxpr.outvars if _among(variable, moving)}
    return sum(math.prod(v.aval.shape) * v.aval.dtype.itemsize for v in found)


def _among(variable: Any, variables: set[Any]) -> bool:
    return not isinstance(variable, Literal) and variable in variables
