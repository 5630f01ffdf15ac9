"""A sublayer as a pure function of shapes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from cem_jax.energies import EnergyConfig, InteractionConfig, SumConfig
from cem_jax.models.config import Sublayer, SublayerConfig
from cem_jax.models.layer import CEMConfig


def build_abstract(config: SublayerConfig, dim: int, dtype: str) -> Sublayer:
    """The sublayer with shapes for parameters."""
    # The norm's epsilon changes no count.
    options: dict[str, Any] = {"norm_eps": 1e-5, "dtype": dtype}
    return nnx.eval_shape(lambda: config.build(dim, rngs=nnx.Rngs(0), **options))


def as_function(module: Any) -> tuple[Callable[[Any, Array], Array], Any]:
    """The map ``(parameters, h) -> output`` of a module, and the shapes of its parameters."""
    graph, parameters = nnx.split(module)
    return lambda parameters, h: nnx.merge(graph, parameters)(h), parameters


def stream(batch: int, length: int, dim: int) -> jax.ShapeDtypeStruct:
    """The shape of the residual stream, ``[B, L, D]``, which is float32."""
    return jax.ShapeDtypeStruct((batch, length, dim), jnp.float32)


def on_reference(config: SublayerConfig) -> SublayerConfig:
    """The same sublayer with every attention energy on its reference backend.

    Tiles, recomputation and opaque kernels change how products are done, not which are asked for.
    """
    if not isinstance(config, CEMConfig):
        return config
    return dataclasses.replace(config, energy=_energy_on_reference(config.energy))


def _energy_on_reference(config: EnergyConfig) -> EnergyConfig:
    if isinstance(config, SumConfig):
        return dataclasses.replace(config, terms=tuple(map(_energy_on_reference, config.terms)))
    if isinstance(config, InteractionConfig):
        return dataclasses.replace(config, backend="reference")
    return config
