"""Programs that run once: compiled with as little optimisation as the compiler offers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

_CHOICES: tuple[dict[str, Any], ...] = (
    {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False},
    {"xla_backend_optimization_level": 0},
    {},
)


def compiled(function: Callable[[Any], Any], quick: bool) -> Callable[[Any], Any]:
    """``function`` of one argument, compiled for it when called; see `columns.measure`.

    Products are taken at full precision: accelerators round float32 operands by default, which
    would say nothing of the formulas.
    """

    def run(argument: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            lowered = jax.jit(function).lower(argument)
        return lowered.compile(compiler_options=_quick_options() if quick else None)(argument)

    return run


@functools.cache
def _quick_options() -> dict[str, Any]:
    """The first of the choices that this version of the compiler knows: up to six times faster."""
    trivial = jax.jit(jnp.negative).lower(1.0)
    for options in _CHOICES:
        try:
            trivial.compile(compiler_options=options)
        except Exception:  # the type of the error differs between versions of JAX
            continue
        return options
    return {}
