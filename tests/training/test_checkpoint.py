import gc

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


def test_keys_of_random_numbers_survive(tmp_path):
    state = {"step": jnp.int32(1), "key": jax.random.key(3)}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(state)
        restored, _ = checkpoints.restore(abstract(jax.device_put(state, jax.devices()[0])))
    assert restored["key"].dtype == state["key"].dtype
    assert jax.random.normal(restored["key"]) == jax.random.normal(state["key"])


def test_the_newest_and_the_best_are_kept(tmp_path):
    losses = {1: 3.0, 2: 1.0, 3: None, 4: 2.0, 5: None}
    state = jax.device_put({"step": jnp.int32(0), "params": {"w": jnp.ones(2)}})
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        assert checkpoints.best() is None
        for step, loss in losses.items():
            figures = {} if loss is None else {"valid_loss": loss}
            checkpoints.save({**state, "step": jnp.int32(step)}, figures)
        checkpoints.wait()
        assert checkpoints.steps() == [2, 4, 5]
        assert checkpoints.best() == 2
    # Not only in the process that wrote them.
    with Checkpoints(tmp_path, read_only=True) as checkpoints:
        assert (checkpoints.best(), checkpoints.latest()) == (2, 5)
        assert checkpoints.restore(abstract(state), 2)[1] == {"valid_loss": 1.0}
        # A part of a state.
        params, _ = checkpoints.restore(abstract({"params": state["params"]}))
    assert set(params) == {"params"}
    # Nothing of what was deleted is left.
    assert not {path.name for path in tmp_path.iterdir()} - {"2", "4", "5"}


def test_a_reader_leaves_a_write_in_progress_alone(tmp_path):
    state = {"step": jnp.int32(1), "w": jnp.ones(2)}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(state)
    unfinished = tmp_path / "2.orbax-checkpoint-tmp"
    unfinished.mkdir()
    with Checkpoints(tmp_path, read_only=True) as checkpoints:
        assert checkpoints.steps() == [1]
    assert unfinished.exists()
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.steps() == [1]
    assert not unfinished.exists()


# After a failed read Orbax drops a coroutine that it never awaited.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_where_no_state_can_be_read_there_is_none_and_all_are_kept_aside(tmp_path):
    state = jax.device_put({"step": jnp.int32(1), "w": jnp.ones(2)}, jax.devices()[0])
    folder, told = tmp_path / "states", []
    with Checkpoints(folder) as checkpoints:
        for step in (1, 2):
            checkpoints.save({**state, "step": jnp.int32(step)})
    for file in folder.rglob("manifest.ocdbt"):
        file.write_bytes(b"")
    with Checkpoints(folder) as checkpoints:
        assert checkpoints.restore_newest(abstract(state), told.append) is None
        assert len(told) == 2
        assert sorted(p.name for p in (tmp_path / "states-damaged").iterdir()) == ["1", "2"]
        # And the folder can be written again.
        checkpoints.save(state)
        assert checkpoints.latest() == 1
    gc.collect()


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
