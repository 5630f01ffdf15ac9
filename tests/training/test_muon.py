"""Muon owns what it should: Optax leaves a stacked matrix to Adam unless it is told."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from optax.contrib import MuonDimensionNumbers

from cem_jax import MHAConfig, SwiGLUConfig, Transformer, TransformerConfig
from cem_jax.models import parameter_axes
from cem_jax.training import MuonConfig, ScheduleConfig, initial_state, make_optimiser, make_step
from cem_jax.training.muon import muon_dimensions


def names(path):
    return "/".join(key.key for key in path)


def owned(params, axes):
    dimensions = muon_dimensions(params, axes)
    leaves = jax.tree_util.tree_leaves_with_path(
        dimensions, is_leaf=lambda leaf: isinstance(leaf, MuonDimensionNumbers)
    )
    return {names(path): (tuple(leaf[0]), tuple(leaf[1])) for path, leaf in leaves}


def test_muon_owns_the_matrices_of_a_cem(tiny):
    projection = ((1,), (2, 3))
    assert owned(tiny.state()["params"], parameter_axes(tiny.model)) == {
        "blocks/attention/energy/wq": projection,
        "blocks/attention/energy/wk": projection,
        "blocks/mlp/energy/gate": ((1,), (2,)),
        "blocks/mlp/energy/up": ((1,), (2,)),
    }


def llama():
    return TransformerConfig(64, 16, 2, MHAConfig(2), SwiGLUConfig(24), tie_embeddings=False)


def fresh(model, config, steps=10):
    optimiser = make_optimiser(config, steps, parameter_axes(model))
    graph, state = initial_state(lambda rngs: Transformer(model, rngs=rngs), optimiser, seed=0)
    return graph, optimiser, state


def test_muon_owns_the_matrices_of_a_llama_and_knows_their_sides():
    _, _, state = fresh(llama(), MuonConfig())
    projection = ((1,), (2, 3))
    assert owned(state["params"], parameter_axes(llama())) == {
        "blocks/attention/wq": projection,
        "blocks/attention/wk": projection,
        "blocks/attention/wv": projection,
        "blocks/attention/wo": ((1, 2), (3,)),
        "blocks/mlp/gate": ((1,), (2,)),
        "blocks/mlp/up": ((1,), (2,)),
        "blocks/mlp/down": ((1,), (2,)),
    }


def test_a_matrix_of_an_energy_without_names_is_still_owned():
    params = {"blocks": {"energy": {"w": jnp.ones((2, 3, 4, 5)), "v": jnp.ones((2, 3))}}}
    for axes in ({}, {"blocks": None}, {"blocks": {"energy": {"w": None, "v": None}}}):
        assert owned(params, axes) == {"blocks/energy/w": ((1,), (2, 3))}


@pytest.mark.slow
@pytest.mark.parametrize("leaf", ["wq", "wo"])
def test_an_update_of_muon_is_orthogonal_in_each_layer(leaf):
    """Singular values are brought to about one, whatever the gradient's, in each layer alone."""
    model = llama()
    config = MuonConfig(
        learning_rate=1.0, weight_decay=0.0, clip=1e9, schedule=ScheduleConfig(warmup=0.0)
    )
    _, optimiser, state = fresh(model, config)
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(16, 16)))[0] for _ in range(2))
    matrix = left @ np.diag(np.linspace(0.3, 1, 16)) @ right
    gradients = jax.tree.map(jnp.zeros_like, state["params"])
    attention = gradients["blocks"]["attention"]
    # The layers' gradients differ in size by far.
    stacked = np.stack([matrix, 100 * matrix]).reshape(attention[leaf].shape)
    attention[leaf] = jnp.asarray(stacked, jnp.float32)
    updates, _ = optimiser.update(gradients, state["opt_state"], state["params"])
    for update in np.asarray(updates["blocks"]["attention"][leaf]):
        singular = np.linalg.svd(update.reshape(16, 16), compute_uv=False)
        # Where five steps of Newton and Schulz bring them.
        assert 0.6 < singular.min() <= singular.max() < 1.3


def test_what_adam_owns_moves_by_its_own_rate(tiny):
    model = llama()
    config = MuonConfig(1.0, 1e-3, clip=1e9, schedule=ScheduleConfig(warmup=0.0))
    graph, optimiser, state = fresh(model, config)
    before = jax.tree.map(np.asarray, state["params"])
    state, _ = make_step(graph, optimiser)(state, tiny.batches.batch(0))
    for leaf in (lambda p: p["embedding"], lambda p: p["blocks"]["mlp"]["norm"]["gain"]):
        moved = np.abs(np.asarray(leaf(state["params"])) - leaf(before)).max()
        # The first step of Adam, with Nesterov's look ahead, is about its rate.
        assert 1e-3 < moved < 3e-3
