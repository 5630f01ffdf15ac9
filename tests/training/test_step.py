import chex
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from cem_jax.data import Pipeline, pack
from cem_jax.ops.readout import readout_cross_entropy
from cem_jax.training import AdamWConfig, initial_state, make_optimiser, make_step
from cem_jax.training import step as step_module
from cem_jax.training.loss import summed_loss


class Bigram(nnx.Module):
    """A model that compiles in no time; its gain is weakly typed, as careless authors make it."""

    def __init__(self, rngs):
        self.table = nnx.Param(0.1 * jax.random.normal(rngs.params(), (16, 16)))
        self.gain = nnx.Param(jnp.full((16,), 1.0))

    def __call__(self, tokens, sites):
        return self.table[...][tokens] * self.gain[...][None, None]

    def cross_entropy(self, tokens, targets, mask, sites):
        return readout_cross_entropy(self(tokens, sites), jnp.eye(16), targets, mask)


rows = pack([[1, 3, 4, 5, 2], [1, 6, 2], [1, *[7, 8] * 9, 2]], 4)
optimiser = make_optimiser(AdamWConfig(learning_rate=0.1), 60)


def test_the_state_is_born_committed_and_strongly_typed():
    _, state = initial_state(Bigram, optimiser, seed=0)
    for leaf in jax.tree.leaves(state):
        assert leaf.committed
        assert not leaf.weak_type
    assert int(state["step"]) == 0
    assert set(state) == {"params", "opt_state", "step"}
    assert type(state["params"]) is dict


def test_the_seed_draws_the_parameters():
    tables = [
        initial_state(Bigram, optimiser, seed=seed)[1]["params"]["table"] for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(tables[0], tables[1])
    assert not np.array_equal(tables[0], tables[2])
    expected = Bigram(nnx.Rngs(jax.random.key(0))).table[...]
    np.testing.assert_allclose(tables[0], expected, rtol=1e-6)


def test_a_step_compiles_once(monkeypatch):
    chex.clear_trace_counter()
    monkeypatch.setattr(step_module, "summed_loss", chex.assert_max_traces(summed_loss, n=1))
    graph, state = initial_state(Bigram, optimiser, seed=0)
    step, batches = make_step(graph, optimiser), Pipeline(rows, batch=2, seed=0)
    for index in range(4):
        state, _ = step(state, batches.batch(index))
    assert step._cache_size() == 1
    assert int(state["step"]) == 4


def test_the_state_given_is_consumed():
    graph, state = initial_state(Bigram, optimiser, seed=0)
    make_step(graph, optimiser)(state, rows.batch([0]))
    assert state["params"]["table"].is_deleted()


def test_the_loss_is_the_token_mean_and_its_gradient():
    graph, state = initial_state(Bigram, optimiser, seed=0)
    params = jax.tree.map(jnp.copy, state["params"])
    batch = rows.batch([0, 1, len(rows) - 1])  # ragged: the last row is padded
    _, metrics = make_step(graph, optimiser)(state, batch)
    table, picked = np.asarray(params["table"], np.float64), batch.mask
    logits = table[batch.inputs[picked]]
    nats = np.log(np.exp(logits).sum(-1)) - logits[np.arange(len(logits)), batch.targets[picked]]
    assert metrics["tokens"] == picked.sum()
    np.testing.assert_allclose(metrics["loss"], nats.mean(), rtol=1e-6)

    def mean(params, batch):
        total, tokens = summed_loss(graph, params, batch)
        return total / tokens

    gradient = jax.jit(jax.grad(mean))(params, batch)
    norm = np.sqrt(sum(float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(gradient)))
    np.testing.assert_allclose(metrics["gradient_norm"], norm, rtol=1e-5)


def test_a_batch_with_nothing_to_predict_moves_nothing_to_nan():
    graph, state = initial_state(Bigram, optimiser, seed=0)
    state, metrics = make_step(graph, optimiser)(state, rows.padded(8).batch([-1, -1]))
    assert metrics["tokens"] == 0
    assert metrics["loss"] == 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state["params"]))


def test_training_lowers_the_loss():
    graph, state = initial_state(Bigram, optimiser, seed=0)
    step, batches = make_step(graph, optimiser), Pipeline(rows, batch=4, seed=0)
    losses = []
    for index in range(60):
        state, metrics = step(state, batches.batch(index))
        losses.append(float(metrics["loss"]))
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 1


def test_a_document_does_not_see_its_neighbour_in_the_row(tiny):
    """Losses of packed documents are those of the documents alone, and so are the gradients."""
    documents = [[1, 9, 8, 7, 2], [1, 33, 2]]
    params = tiny.state()["params"]

    @jax.jit
    def nats_and_gradient(params, batch):
        graph = tiny.graph
        (nats, tokens), gradient = jax.value_and_grad(
            lambda params: summed_loss(graph, params, batch), has_aux=True
        )(params)
        return nats, tokens, gradient

    both = nats_and_gradient(params, pack(documents, 8).batch([0]))
    alone = [nats_and_gradient(params, pack([text], 8).batch([0])) for text in documents]
    for together, *parts in zip(*map(jax.tree.leaves, (both, *alone)), strict=True):
        total = np.add(*parts)
        scale = max(1.0, float(np.abs(total).max()))
        np.testing.assert_allclose(together / scale, total / scale, atol=1e-5)
