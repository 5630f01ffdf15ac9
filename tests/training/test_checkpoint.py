import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cem_jax.training import Checkpoints, Hooks, train
from cem_jax.training.state import abstract


def assert_bit_equal(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_what_is_restored_is_what_was_saved(tiny, tmp_path):
    state, _ = tiny.step(tiny.state(), tiny.batches.batch(0))
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.latest() is None
        checkpoints.save(state, {"data": "abc", "numbers": [1, 2.5]})
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.latest() == 1
        restored, metadata = checkpoints.restore(abstract(tiny.state()))
    assert_bit_equal(restored, state)
    assert metadata == {"data": "abc", "numbers": [1, 2.5]}


def test_a_run_that_is_restored_ends_as_the_one_that_was_not(tiny, tmp_path):
    """Saved in the background while training goes on and the saved buffers are reused."""
    straight, resumed = [], []
    with Checkpoints(tmp_path) as checkpoints:
        hooks = Hooks(straight.extend, save=checkpoints.save)
        end = train(tiny.state(), tiny.step, tiny.batches.batch, tiny.config, hooks)
    with Checkpoints(tmp_path) as checkpoints:
        middle, _ = checkpoints.restore(abstract(tiny.state()), 3)
    assert int(middle["step"]) == 3
    again = train(middle, tiny.step, tiny.batches.batch, tiny.config, Hooks(resumed.extend))
    assert_bit_equal(again, end)

    def losses(records):
        return [(record["step"], record["loss"], record["gradient_norm"]) for record in records]

    assert losses(resumed) == losses(straight)[3:]
    assert tiny.step._cache_size() == 1


def test_the_newest_are_kept_and_an_older_one_is_not_written_over(tiny, tmp_path):
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        for step in (1, 2, 3):
            state = {"step": jnp.int32(step), "w": jnp.ones(2)}
            checkpoints.save(state, {})
        with pytest.raises(ValueError, match="got 3 to save after step 3, expected a later one"):
            checkpoints.save(state, {})
        checkpoints.wait()
        with pytest.raises(ValueError, match=r"got no step 1 .*expected one of \[2, 3\]"):
            checkpoints.restore(abstract(state), 1)


def test_a_state_of_another_model_is_refused_by_name(tmp_path):
    state = {"step": jnp.int32(1), "w": jnp.ones(2)}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(state, {})
        checkpoints.wait()
        for other, message in (
            ({"w": jnp.ones(3)}, r"got float32\[2\] for \['w'\], expected float32\[3\]"),
            ({"w": jnp.ones(2, jnp.bfloat16)}, r"expected bfloat16\[2\]"),
            ({"v": jnp.ones(2)}, r"got nothing for \['v'\], expected float32\[2\]"),
        ):
            with pytest.raises(ValueError, match=message):
                checkpoints.restore(abstract({**state, **other}))


def test_a_state_of_another_identity_is_refused_by_name(tmp_path):
    """Norm modes and numbers of steps have equal shapes: only the description tells."""
    state = {"step": jnp.int32(1), "w": jnp.ones(2)}
    model = {"model": {"descent": {"norm_mode": "default", "steps": (2,)}}}
    with Checkpoints(tmp_path, model) as checkpoints:
        checkpoints.save(state)
    with Checkpoints(tmp_path, model) as checkpoints:
        checkpoints.restore(abstract(state))
    other = {"model": {"descent": {"norm_mode": "exact", "steps": (2,)}}}
    message = r"""got "default" for \['model'\]\['descent'\]\['norm_mode'\], expected "exact";"""
    with Checkpoints(tmp_path, other) as checkpoints, pytest.raises(ValueError, match=message):
        checkpoints.restore(abstract(state))


def test_impossible_values_are_refused(tmp_path):
    with pytest.raises(ValueError, match="keep: got 0, expected a Python integer of at least 1"):
        Checkpoints(tmp_path, keep=0)
    with (
        Checkpoints(tmp_path) as checkpoints,
        pytest.raises(ValueError, match=r"got no step None .*expected one of \[\]"),
    ):
        checkpoints.restore({})
