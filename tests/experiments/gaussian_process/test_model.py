"""What a prediction sees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from experiments.gaussian_process.model import ModelConfig, Regressor, tokens
from experiments.gaussian_process.plan import CASES

KINDS = ("1d-2layer-cem-t2", "1d-1layer-cem-t4-pd", "1d-2layer-mha")


@pytest.fixture(params=KINDS, scope="module")
def model(request):
    return jax.jit(Regressor(CASES[request.param].model, rngs=nnx.Rngs(0)))


@pytest.fixture
def pairs(key):
    return jax.random.normal(key, (2, 12, 1)), jax.random.normal(key, (2, 12))


def changed_at(model, pairs, change):
    """At which positions of the first row any prediction changes; the second must not."""
    before, after = model(*pairs), model(*change(*pairs))
    assert np.array_equal(before[1], after[1])
    return np.flatnonzero(before[0] != after[0])


def test_a_value_changes_no_prediction_up_to_its_own(model, pairs):
    seen = changed_at(model, pairs, lambda x, y: (x, y.at[0, 5].add(1.0)))
    assert np.array_equal(seen, np.arange(6, 12))


def test_an_input_changes_its_own_prediction_and_none_before(model, pairs):
    seen = changed_at(model, pairs, lambda x, y: (x.at[0, 5].add(1.0), y))
    assert np.array_equal(seen, np.arange(5, 12))


def test_a_token_is_the_question_and_the_last_pair():
    x, y = jnp.array([[[1.0, 2.0], [3.0, 4.0]]]), jnp.array([[5.0, 6.0]])
    assert tokens(x, y).tolist() == [[[1, 2, 0, 0, 0, 0], [3, 4, 1, 2, 5, 1]]]


def test_cases_at_one_depth_begin_with_the_same_parameters():
    one, four = (
        nnx.to_pure_dict(nnx.state(Regressor(CASES[f"1d-2layer-cem-{t}"].model, rngs=nnx.Rngs(3))))
        for t in ("t1", "t4")
    )
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), one, four))


def test_counts_are_checked():
    with pytest.raises(ValueError, match="layers: got 0"):
        ModelConfig(1, 8, 0, CASES[KINDS[0]].attention)
