"""Micro-batches add up to the batch: gradients and losses weigh tokens, sums are float32."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from cem_jax import (
    CEMConfig,
    DescentConfig,
    InteractionConfig,
    SwiGLUConfig,
    Transformer,
    TransformerConfig,
)
from cem_jax.data import pack
from cem_jax.training import make_step
from cem_jax.training.accumulation import summed
from cem_jax.training.loss import summed_loss
from cem_jax.training.step import gradients_of

SMALL = TransformerConfig(
    64, 16, 1, CEMConfig(InteractionConfig(2), DescentConfig(steps=1)), SwiGLUConfig(24)
)
BOUNDS = {"float32": 5e-6, "float64": 1e-12}


def ragged():
    """Eight rows of packed documents that predict from none to eight tokens."""
    documents = [[1, 5, 2], [1, *range(3, 30), 2], [1, 9, 9, 2], [1, 4, 2], [1, 2]]
    batch = pack(documents, 8).padded(8).batch(slice(0, 8))
    assert len({int(row.sum()) for row in batch.mask}) > 3
    return batch


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_micro_batches_of_any_size_have_the_gradient_of_the_batch(dtype):
    """torchtitan 2206, torchtune 1875: 1 x 8, 2 x 4, 4 x 2 and 8 x 1 rows, per leaf."""
    with jax.enable_x64(dtype == "float64"):
        model = dataclasses.replace(SMALL, dtype=dtype)
        graph, params = nnx.split(Transformer(model, rngs=nnx.Rngs(0)), nnx.Param)
        params = jax.tree.map(lambda x: jnp.asarray(x, dtype), nnx.to_pure_dict(params))
        found = [
            jax.jit(gradients_of, static_argnums=(0, 3))(graph, params, ragged(), parts)
            for parts in (1, 2, 4, 8)
        ]
    (expected, whole), *others = jax.device_get(found)
    for gradients, metrics in others:
        assert metrics["tokens"] == whole["tokens"] == ragged().mask.sum()
        for name in ("loss", "gradient_norm"):
            np.testing.assert_allclose(metrics[name], whole[name], rtol=BOUNDS[dtype])
        for one, other in zip(*map(jax.tree.leaves, (gradients, expected)), strict=True):
            assert one.dtype == other.dtype == dtype
            far = np.linalg.norm(one - other) / np.linalg.norm(other)
            assert far <= BOUNDS[dtype], far


def test_one_micro_batch_is_no_loop():
    graph, shapes = nnx.split(nnx.eval_shape(lambda: Transformer(SMALL, rngs=nnx.Rngs(0))))
    params, batch = nnx.to_pure_dict(shapes), ragged()

    def plain(params, batch):
        return jax.grad(lambda params: summed_loss(graph, params, batch)[0])(params)

    def loops(function):
        return jax.jit(function).lower(params, batch).as_text().count("stablehlo.while")

    own = {
        parts: loops(lambda params, batch, n=parts: gradients_of(graph, params, batch, n))
        for parts in (1, 2)
    }
    assert own == {1: loops(plain), 2: loops(plain) + 1}


def test_each_micro_batch_has_rows_from_all_of_the_batch():
    """A device that holds neighbouring rows has as many of each micro-batch."""
    batch = ragged()
    batch = batch._replace(inputs=np.tile(np.arange(8, dtype=np.int32)[:, None], (1, 8)))
    places = jnp.array([1, 100])
    seen = jax.jit(lambda batch: summed(lambda rows: rows.inputs[:, 0] * places, batch, 4))(batch)
    # The first rows are 0, 1, 2, 3, the second ones 4, 5, 6, 7.
    np.testing.assert_array_equal(seen, [0 + 1 + 2 + 3, 100 * (4 + 5 + 6 + 7)])


def test_sums_of_narrow_numbers_are_wide():
    """In bfloat16 a sum of ones stays at 256."""
    rows = pack([list(range(1, 1026))], 1).batch(slice(0, 1024))

    def count(rows):
        return jnp.sum(rows.mask, dtype=jnp.bfloat16)

    ones = jax.jit(lambda rows: summed(count, rows, 1024))(rows)
    assert ones.dtype == jnp.float32
    assert ones == 1024


def test_a_batch_that_does_not_divide_is_refused(tiny):
    step = make_step(tiny.graph, tiny.optimiser, accumulate=3)
    with pytest.raises(ValueError, match="accumulate: got 3 micro-batches of 8 rows, expected a"):
        step(tiny.state(), ragged())
