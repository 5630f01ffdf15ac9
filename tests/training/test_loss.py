"""Losses and gradients weigh tokens, however they are cut into micro-batches."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cem_jax.data import pack
from cem_jax.training.loss import summed_loss


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [1, 2, 4, 8])
def test_ragged_micro_batches_add_up_to_the_whole_batch(tiny, pieces):
    """torchtitan 2206, torchtune 1875: a mean of means would weigh short rows too much."""
    rows = pack([[1, 5, 2], [1, *range(3, 30), 2], [1, 9, 9, 2], [1, 4, 2], [1, 2]], 8).padded(8)
    batch = rows.batch(slice(0, 8))
    assert len({int(row.sum()) for row in batch.mask}) > 3  # ragged, and some are empty
    params = tiny.state()["params"]

    @jax.jit
    def part(params, batch):
        return jax.value_and_grad(
            lambda params: summed_loss(tiny.graph, params, batch), has_aux=True
        )(params)

    def mean(slices):
        parts = [part(params, jax.tree.map(operator.itemgetter(one), batch)) for one in slices]
        nats = sum(nats for (nats, _), _ in parts)
        tokens = sum(tokens for (_, tokens), _ in parts)
        gradients = jax.tree.map(lambda *leaves: sum(leaves) / tokens, *(g for _, g in parts))
        return nats / tokens, gradients

    width = 8 // pieces
    loss, gradients = mean([slice(start, start + width) for start in range(0, 8, width)])
    whole, expected = mean([slice(0, 8)])
    np.testing.assert_allclose(loss, whole, rtol=1e-6)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), gradients, expected
    )
    assert jnp.isfinite(loss)
