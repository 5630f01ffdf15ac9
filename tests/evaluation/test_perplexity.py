import math

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
from cem_jax.evaluation.perplexity import Perplexity, make_row_nats, perplexity, total_nats
from cem_jax.ops.readout import readout_nats
from cem_jax.training import AdamWConfig, initial_state, make_optimiser


@pytest.fixture(scope="module")
def tiny():
    attention = CEMConfig(InteractionConfig(2), DescentConfig(steps=2))
    config = TransformerConfig(64, 16, 1, attention, SwiGLUConfig(24))
    optimiser = make_optimiser(AdamWConfig(), 1)
    graph, state = initial_state(lambda rngs: Transformer(config, rngs=rngs), optimiser, seed=0)
    return make_row_nats(graph), state["params"]


rng = np.random.default_rng(0)
DOCUMENTS = [[1, *rng.integers(3, 64, size).tolist(), 2] for size in (5, 20, 3, 9, 30)]


def test_the_loss_does_not_depend_on_the_evaluation_batch(tiny):
    rows = pack(DOCUMENTS, 8)
    assert len(rows) == 10
    figures = [perplexity(*tiny, rows, batch=batch, utf8_bytes=70) for batch in (1, 4, 10, 16)]
    for other in figures[1:]:
        assert other.tokens == figures[0].tokens == sum(len(text) - 1 for text in DOCUMENTS)
        np.testing.assert_allclose(other.nats, figures[0].nats, rtol=1e-6)


def test_packed_rows_have_the_loss_of_their_documents_alone(tiny):
    documents = [text for text in DOCUMENTS if len(text) < 15]
    row_nats, params = tiny
    together = total_nats(row_nats, params, pack(documents, 32), batch=1)
    alone = [total_nats(row_nats, params, pack([text], 32), batch=1) for text in documents]
    assert together[1] == sum(tokens for _, tokens in alone)
    np.testing.assert_allclose(together[0], sum(nats for nats, _ in alone), rtol=1e-5)


class Uniform(nnx.Module):
    def __init__(self, rngs):
        self.logit = nnx.Param(jnp.zeros(()))

    def nats(self, tokens, targets, mask, sites):
        hidden = jnp.broadcast_to(self.logit[...], (*tokens.shape, 1))
        return readout_nats(hidden, jnp.ones((64, 1)), targets, mask)


def test_a_model_that_knows_nothing_has_the_perplexity_of_its_vocabulary():
    graph, state = nnx.split(Uniform(nnx.Rngs(0)))
    rows = pack(DOCUMENTS, 8)
    figures = perplexity(
        make_row_nats(graph), nnx.to_pure_dict(state), rows, batch=4, utf8_bytes=144
    )
    # Document ends are predicted: 67 pieces and 5 ends.
    assert figures.tokens == 72
    np.testing.assert_allclose(figures.loss, math.log(64), rtol=1e-6)
    np.testing.assert_allclose(figures.perplexity, 64, rtol=1e-5)
    np.testing.assert_allclose(figures.bits_per_byte, 6 * 72 / 144, rtol=1e-6)


def test_a_hopeless_loss_has_infinite_perplexity():
    assert Perplexity(nats=800.0, tokens=1, utf8_bytes=1).perplexity == math.inf


def test_impossible_batches_are_refused(tiny):
    with pytest.raises(ValueError, match="batch: got 0, expected at least 1"):
        total_nats(*tiny, pack(DOCUMENTS, 8), batch=0)


def test_the_empty_rows_that_fill_the_last_batch_are_finite(tiny):
    row_nats, params = tiny
    nats = row_nats(params, pack([[1, 3, 2]], 8).padded(4).batch(slice(None)))
    np.testing.assert_array_equal(nats[1:], 0.0)
    assert jnp.isfinite(nats).all()


def test_no_two_batches_are_in_work_at_once():
    """Several processes could begin the sends of two in another order, and wait for ever."""
    told = []

    class Nats:
        def __array__(self, dtype=None, copy=None):
            told.append("read")
            return np.ones(4, dtype)

    def row_nats(params, batch):
        told.append("begun")
        return Nats()

    assert total_nats(row_nats, {}, pack(DOCUMENTS, 8), batch=4)[0] == 12
    assert told == ["begun", "read"] * 3
