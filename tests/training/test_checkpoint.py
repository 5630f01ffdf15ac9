import gc
import shutil
import subprocess
import sys

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


def saved(folder, *steps, valid_loss=None):
    """States of these steps, written."""
    state = jax.device_put({"step": jnp.int32(0), "w": jnp.ones(2)}, jax.devices()[0])
    with Checkpoints(folder, keep=9) as checkpoints:
        for step in steps:
            figures = {} if valid_loss is None else {"valid_loss": valid_loss}
            checkpoints.save({**state, "step": jnp.int32(step)}, figures)
    return state


# After a failed read Orbax drops a coroutine that it never awaited.
leftovers = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@leftovers
def test_whichever_file_of_the_newest_state_is_damaged_the_one_before_is_taken(tmp_path):
    state = saved(tmp_path / "whole", 1, 2, valid_loss=1.0)
    newest = tmp_path / "whole" / "2"
    files = [path.relative_to(newest) for path in newest.rglob("*") if path.is_file()]
    assert len(files) > 5
    taken = {}
    for number, file in enumerate(files):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", folder)
        (folder / "2" / file).write_bytes(b"{")
        told = []
        with Checkpoints(folder) as checkpoints:
            restored, _, step = checkpoints.restore_newest(abstract(state), told.append)
        assert int(restored["step"]) == step
        # What Orbax does not need is no damage; what it needs is told.
        assert (step == 1) == (len(told) == 1)
        taken[str(file)] = step
    assert {taken[name] for name in ("metadata/metadata", "state/manifest.ocdbt")} == {1}
    gc.collect()


@leftovers
def test_where_no_state_can_be_read_that_is_an_error_and_nothing_is_moved(tmp_path):
    state = saved(tmp_path, 1, 2)
    for file in tmp_path.rglob("manifest.ocdbt"):
        file.write_bytes(b"")
    with Checkpoints(tmp_path) as checkpoints:
        with pytest.raises(ValueError, match=r"none of which can be read \(step 2: .*step 1: "):
            checkpoints.restore_newest(abstract(state), pytest.fail)
        assert checkpoints.steps() == [1, 2]
    gc.collect()


def test_where_there_is_no_state_there_is_none(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.restore_newest({}, pytest.fail) is None


def test_a_state_that_is_set_aside_is_kept_and_its_step_can_be_written_again(tmp_path):
    state = saved(tmp_path / "states", 1, 2)
    with Checkpoints(tmp_path / "states") as checkpoints:
        where = checkpoints.set_aside(2)
        assert where.is_dir()
        assert checkpoints.steps() == [1]
        checkpoints.save({**state, "step": jnp.int32(2)})
        assert checkpoints.set_aside(2) != where
    assert {path.name for path in where.parent.iterdir()} == {"2", "2-1"}


def test_what_cannot_be_written_is_an_error_of_the_system(tmp_path):
    """As on a full disk: files of this process may not grow beyond some bytes."""
    program = """
import resource, signal, sys
import jax, jax.numpy as jnp
from pathlib import Path
from cem_jax.training import Checkpoints
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
state = {"step": jnp.int32(1), "w": jax.random.normal(jax.random.key(0), (200_000,))}
try:
    with Checkpoints(Path(sys.argv[1])) as checkpoints:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        checkpoints.save(state)
        checkpoints.save({**state, "step": jnp.int32(2)})
except OSError as error:
    print("told:", error)
"""
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True
    )
    assert "told: checkpoint: a state could not be written to" in run.stdout, run.stderr


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
    message = r"got default for model\.descent\.norm_mode, expected exact;"
    with Checkpoints(tmp_path, other) as checkpoints, pytest.raises(ValueError, match=message):
        checkpoints.restore(abstract(state))


def test_impossible_values_are_refused(tmp_path):
    with pytest.raises(ValueError, match="keep: got 0, expected at least 1"):
        Checkpoints(tmp_path, keep=0)
    with (
        Checkpoints(tmp_path) as checkpoints,
        pytest.raises(ValueError, match=r"got no step None .*expected one of \[\]"),
    ):
        checkpoints.restore({})
