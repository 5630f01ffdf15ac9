"""Parameters that carry the logical names of their axes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array


def parameter(value: Array, axes: str) -> nnx.Param:
    """An `nnx.Param` whose metadata names its axes, such as ``"D H K"``.

    The names are our own metadata, not NNX's sharding keys, which would demand a mesh. They are
    those of the unstacked layer; stacking prepends the layer axis.
    """
    if len(axes.split()) != value.ndim:
        raise ValueError(f"axes: got {axes!r} for shape {value.shape}, expected one name per axis.")
    # What a Python number made is weakly typed until its first update: a step would compile twice.
    return nnx.Param(jax.lax.convert_element_type(value, value.dtype), axes=axes)


def fan_in(rngs: nnx.Rngs, shape: tuple[int, ...], fan: int) -> Array:
    """Normal values of standard deviation ``fan^(-1/2)``, in float32.

    Unit-variance inputs stay of unit variance at every width.
    """
    return jax.random.normal(rngs.params(), shape, jnp.float32) * fan**-0.5
