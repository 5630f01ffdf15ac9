"""The machine's own speed: a large product of matrices, as a side."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from cem_jax.runs.benchmark.timing import Side

SIZE = 2048


def product_side(name: str = "matrix product", size: int = SIZE) -> Side:
    """A product of two square float32 matrices; its figure ``flops`` is 2 size^3."""
    matrix = jax.random.normal(jax.random.key(0), (size, size), jnp.float32)
    product = jax.jit(jnp.matmul).lower(matrix, matrix).compile()

    def run() -> None:
        jax.block_until_ready(product(matrix, matrix))

    return Side(name, run, {"flops": 2 * size**3})
