"""How long a run will take, before it begins."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp

from cem_jax.models import TransformerConfig
from cem_jax.models.cost import PRODUCTS_IN_TRAINING, count_forward_flops
from cem_jax.training import TrainingConfig

SIZE = 1024
"""Rows and columns of the product that measures the machine."""

EFFICIENCY = 0.25
"""The part of the speed of a large matrix product that training reaches: fitted to runs of the
preset ``tiny`` on two CPU cores (CEM 0.25, Llama 0.27 to 0.31), and a guess elsewhere."""

OVERHEAD = 40.0
"""Seconds for tokenizer, compilation, references and picture."""


def expected_seconds(
    model: TransformerConfig, training: TrainingConfig, held_out: int, *, done: int = 0
) -> float:
    """An estimate from the model's FLOPs and the machine's speed on a matrix product, now.

    Args:
        model: what is trained.
        training: how long.
        held_out: tokens that are evaluated at the end.
        done: steps that are behind it already.
    """
    shape = {"batch": training.batch, "length": training.length}
    forward = count_forward_flops(model, **shape) / (training.batch * training.length)
    tokens = (training.steps - done) * training.batch * training.length
    work = forward * (PRODUCTS_IN_TRAINING * tokens + held_out)
    return OVERHEAD + work / (EFFICIENCY * _flops_per_second())


def _flops_per_second() -> float:
    """The best of a few large products."""
    matrix = jnp.ones((SIZE, SIZE), jnp.float32)
    product = jax.jit(lambda a: a @ a)
    jax.block_until_ready(product(matrix))
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        jax.block_until_ready(product(matrix))
        seconds.append(time.perf_counter() - start)
    return 2 * SIZE**3 / min(seconds)
