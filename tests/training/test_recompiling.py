"""A step that is compiled again is told; that a whole run says nothing, tests/cli holds."""

import jax
import jax.numpy as jnp
import pytest

from cem_jax.data import pack
from cem_jax.training import TrainingConfig, train
from cem_jax.training.recompiling import told_of_recompiling

ROWS = pack([range(1, 60)], 8)


@pytest.fixture
def step():
    """A step that nothing has compiled yet."""

    def count(state, batch):
        metrics = {"loss": batch.inputs.sum() * 1.0, "gradient_norm": 1.0, "tokens": 1}
        return {**state, "step": state["step"] + 1}, metrics

    return jax.jit(count, donate_argnums=0)


def state_at(begin):
    return jax.device_put({"step": jnp.int32(begin), "params": {}}, jax.devices()[0])


def batch(rows):
    return jax.device_put(ROWS.batch(range(rows)), jax.devices()[0])


def test_steps_of_one_shape_compile_once_and_nothing_is_said(step):
    watched = told_of_recompiling(step, 0, pytest.fail)
    train(state_at(0), watched, lambda index: batch(2), TrainingConfig(steps=4))


def test_another_shape_at_a_step_is_told_once_with_the_step(step):
    said = []
    watched = told_of_recompiling(step, 0, said.append)
    train(state_at(0), watched, lambda index: batch(2 + (index >= 4)), TrainingConfig(steps=7))
    assert len(said) == 1
    assert said[0].startswith("warning: step 5 was compiled again, which took ")
    assert said[0].endswith("of int32[3, 8], bool[3, 8], before of int32[2, 8], bool[2, 8]")


def test_arguments_that_live_elsewhere_are_told_of_equal_shapes(step):
    said = []
    watched = told_of_recompiling(step, 20, said.append)
    state, _ = watched(state_at(20), batch(2))
    state, _ = watched(state, batch(2))
    assert said == []
    mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    watched(jax.device_put(state, jax.sharding.NamedSharding(mesh, jax.P())), batch(2))
    assert len(said) == 1
    assert "step 23 was compiled again" in said[0]
    assert "are those of before" in said[0]


def test_what_compiles_between_the_steps_is_none_of_theirs(step):
    watched = told_of_recompiling(step, 0, pytest.fail)
    state = state_at(0)
    for index in range(3):
        state, _ = watched(state, batch(2))
        jax.jit(lambda x, index=index: x + index)(1.0)
