"""The lists that the shared-property suite runs over: energies, and inner transformations.

An energy joins by one line in ``ENERGIES``; everything of the suite then checks it.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
import pytest
from flax import nnx

from cem_jax import (
    CEMLayer,
    ContextScoreConfig,
    DescentConfig,
    ElementwiseConfig,
    InteractionConfig,
    MemoryConfig,
    PreconditionerConfig,
    Rotary,
    Sites,
    StepSizeConfig,
    SumConfig,
    Visible,
)

B, L, D = 2, 5, 8


class EnergyCase(NamedTuple):
    """An energy of the suite; ``attends`` where it reads other positions (concave, unbounded)."""

    name: str
    config: Any
    attends: bool


_flat = Rotary(fraction=0.0)
_rich: dict[str, Any] = {
    "key_heads": 2,
    "head_dim": 6,
    "learn_temperature": True,
    "relative_bias": 2,
    "context_score": ContextScoreConfig(width=2),
    "visible": Visible(window=2),
}

ENERGIES = [
    EnergyCase("low-rank", InteractionConfig(2, rotary=_flat), True),
    EnergyCase("rotary", InteractionConfig(2), True),
    EnergyCase("rotary-half", InteractionConfig(2, rotary=Rotary(0.5, base=100.0)), True),
    EnergyCase("grouped", InteractionConfig(4, key_heads=2), True),
    EnergyCase("diagonal-head", InteractionConfig(2, diagonal="head"), True),
    EnergyCase("diagonal-shared", InteractionConfig(2, diagonal="shared"), True),
    EnergyCase("windowed", InteractionConfig(2, visible=Visible(window=2)), True),
    EnergyCase("temperature", InteractionConfig(2, head_dim=6, temperature=0.7), True),
    EnergyCase("learned-temperature", InteractionConfig(2, learn_temperature=True), True),
    EnergyCase("relative-bias", InteractionConfig(2, relative_bias=2), True),
    EnergyCase(
        "context-score", InteractionConfig(2, context_score=ContextScoreConfig(4, _flat)), True
    ),
    EnergyCase("all-head", InteractionConfig(4, diagonal="head", **_rich), True),
    EnergyCase("all-shared", InteractionConfig(4, diagonal="shared", **_rich), True),
    *(
        EnergyCase(f"{form}-{phi}", ElementwiseConfig(12, form, phi), False)
        for form in ("nonlinear", "quadratic")
        for phi in ("silu", "gelu", "squared_relu")
    ),
    EnergyCase("memory", MemoryConfig(7), False),
    EnergyCase("sum", SumConfig((InteractionConfig(2), ElementwiseConfig(12))), True),
]
ENERGY = {case.name: case for case in ENERGIES}

TRANSFORMATIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "identity": lambda: {},
    "clip": lambda: {"transformation": optax.clip_by_global_norm(0.3)},
    "adam": lambda: {"transformation": optax.scale_by_adam()},
    "momentum": lambda: {"transformation": optax.trace(decay=0.9, nesterov=True)},
    "rms": lambda: {"transformation": optax.scale_by_rms()},
    "decay": lambda: {"transformation": optax.add_decayed_weights(0.1)},
    "symmetric": lambda: {"preconditioner": PreconditionerConfig(rank=2)},
    "definite": lambda: {"preconditioner": PreconditionerConfig(rank=2, definite=True)},
    "of-each-step": lambda: {
        "preconditioner": PreconditionerConfig(rank=2, learn="step"),
        "momentum": 0.4,
    },
    "chain": lambda: {
        "transformation": optax.chain(optax.clip_by_global_norm(0.5), optax.trace(decay=0.5)),
        "preconditioner": PreconditionerConfig(rank=2),
        "step_size": StepSizeConfig(0.2, "step"),
    },
}
"""What a layer is given beside its energy: the user's rule, P and eta."""


def over(cases: list[EnergyCase] | list[str]) -> Any:
    """Parametrize a test over energies, by name."""
    names = [case if isinstance(case, str) else case.name for case in cases]
    return pytest.mark.parametrize("name", names)


def normal(seed: int | str, *shape: int, dtype: Any = None) -> jax.Array:
    """Standard normal values, the same for the same seed; float32, or float64 under x64."""
    number = zlib.crc32(seed.encode()) if isinstance(seed, str) else seed
    return jax.random.normal(jax.random.key(number), shape, dtype or float)


def randomize(module: Any, seed: int = 7, scale: float = 0.3) -> Any:
    """The module with noise on every parameter, so that what starts at zero does something.

    In float32; under x64 in float64.
    """
    keys = nnx.Rngs(seed)

    def noisy(variable: nnx.Param) -> nnx.Param:
        value = variable[...]
        noise = jax.random.normal(keys.params(), value.shape, float)
        return variable.replace(value.astype(noise.dtype) + scale * noise)

    nnx.update(module, nnx.map_state(lambda _, v: noisy(v), nnx.state(module, nnx.Param)))
    return module


def layer(config: Any, *, seed: int = 1, dtype: str = "float32", **options: Any) -> CEMLayer:
    """A layer on an energy's config, two plain steps of 0.3 by default, parameters noisy."""
    names = ("steps", "norm_mode", "step_size", "preconditioner", "momentum", "unroll", "remat")
    descent = {"steps": 2, "step_size": StepSizeConfig(0.3)}
    descent |= {name: options.pop(name) for name in names if name in options}
    built = CEMLayer(
        D, config, DescentConfig(**descent), dtype=dtype, rngs=nnx.Rngs(seed), **options
    )
    return randomize(built)


def traced_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Jitted; a second trace, which means a second compilation, is a failure.

    As `chex.assert_max_traces`, which counts all functions of one source line together.
    """
    traces: list[None] = []

    @jax.jit
    def counted(*arguments: Any) -> Any:
        traces.append(None)
        assert len(traces) == 1, "compiled again for equal shapes"
        return function(*arguments)

    return counted


def split(module: Any) -> tuple[Any, dict[str, Any]]:
    """The module as a graph definition and a plain dict of arrays."""
    graph, state = nnx.split(module, nnx.Param)
    return graph, nnx.to_pure_dict(state)


def packed() -> Sites:
    """Row 0: a document of 3, one of 2. Row 1: one of 3, then padding."""
    position = jnp.array([[0, 1, 2, 0, 1], [0, 1, 2, 0, 0]], jnp.int32)
    return Sites(position, jnp.array([[1, 1, 1, 2, 2], [1, 1, 1, 0, 0]], jnp.int32))


def plain(config: Any) -> Any:
    """The same energy, differentiated by JAX's own rules alone."""
    if isinstance(config, SumConfig):
        return SumConfig(tuple(plain(term) for term in config.terms))
    has_backend = any(field.name == "backend" for field in dataclasses.fields(config))
    return dataclasses.replace(config, backend="plain") if has_backend else config
