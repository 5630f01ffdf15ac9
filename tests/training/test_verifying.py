"""Saved states, listed and read in full without their model."""

import gc
import json
import shutil

import jax
import jax.numpy as jnp
import pytest

from cem_jax.training import Checkpoints, verifying
from cem_jax.training.beside import DamagedError
from cem_jax.training.saved import best_of, newest_of, saved_states
from cem_jax.training.verifying import VanishedError, array_bytes, verify_state

STATE = {"params": {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(3, jnp.bfloat16)}}

# After a failed read Orbax drops a coroutine that it never awaited.
leftovers = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def save(folder, *steps, loss=None, **more):
    with Checkpoints(folder, keep=9) as checkpoints:
        for step in steps:
            figures = {} if loss is None else {"valid_loss": loss}
            checkpoints.save({**STATE, **more, "step": jnp.int32(step)}, figures)


def content(folder):
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_states_are_listed_with_the_newest_and_the_best(tmp_path):
    folder = tmp_path / "states"
    save(folder, 2, loss=1.5)
    save(folder, 4, loss=0.5)
    save(folder, 10)
    with Checkpoints(folder) as checkpoints:
        checkpoints.set_aside(4)
    for name in ("trash", "12.orbax-checkpoint-tmp-3", "notes"):
        (folder / name).mkdir()
    states = saved_states(folder)
    assert [(state.step, state.set_aside) for state in states] == [(2, 0), (10, 0), (4, 1)]
    assert [state.valid_loss for state in states] == [1.5, None, 0.5]
    assert (newest_of(states), best_of(states)) == (10, 2)
    on_disk = sum(len(data) for _, data in content(folder / "2").values())
    assert states[0].bytes == on_disk
    assert states[0].time <= states[1].time
    assert saved_states(tmp_path / "nothing") == []


def test_what_was_saved_is_read_in_full_and_nothing_is_written(tmp_path, monkeypatch):
    save(tmp_path, 1, key=jax.random.key(3), pair=(jnp.ones(2), {"it": jnp.zeros(1)}))
    before, read = content(tmp_path), []
    # One array at a time, too: a state need not fit in memory.
    for group in (1 << 28, 1):
        monkeypatch.setattr(verifying, "GROUP", group)
        assert verify_state(tmp_path / "1", read.append) == 0
    assert sum(read) == 2 * array_bytes(tmp_path / "1") == 2 * (6 * 4 + 3 * 2 + 3 * 4 + 4)
    assert content(tmp_path) == before


def edited(path, change):
    beside = json.loads(path.read_text())
    change(beside)
    path.write_text(json.dumps(beside))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b["sums"].update({"['params']['w']": 7}), "params/w has other numbers"),
        (lambda b: b["leaves"].update({"['params']['w']": "float32[3, 2]"}), r"w is float32\[2, 3"),
        (lambda b: b["leaves"].update({"['more']": "float32[]"}), "more is only in one"),
        (lambda b: b["leaves"].pop("['step']"), "step is only in one"),
        (lambda b: b.pop("leaves"), "metadata cannot be read"),
    ],
)
def test_what_is_not_what_was_saved_is_damaged(tmp_path, change, message):
    save(tmp_path, 1)
    edited(tmp_path / "1/metadata/metadata", change)
    with pytest.raises(DamagedError, match=message):
        verify_state(tmp_path / "1")


def test_arrays_without_a_checksum_are_counted(tmp_path):
    save(tmp_path, 1)
    edited(tmp_path / "1/metadata/metadata", lambda beside: beside["sums"].clear())
    assert verify_state(tmp_path / "1") == 3


@leftovers
def test_whichever_file_is_cut_it_is_damaged_or_not_needed(tmp_path):
    save(tmp_path / "whole", 1)
    whole = tmp_path / "whole/1"
    files = [path.relative_to(whole) for path in whole.rglob("*") if path.is_file()]
    found = {}
    for number, file in enumerate(files):
        other = tmp_path / str(number)
        shutil.copytree(whole, other)
        (other / file).write_bytes((other / file).read_bytes()[:-9])
        try:
            verify_state(other)
            found[str(file)] = "ok"
        except DamagedError:
            found[str(file)] = "damaged"
    needed = {name for name, what in found.items() if what == "damaged"}
    assert {"metadata/metadata", "state/manifest.ocdbt", "state/_METADATA"} <= needed
    assert any(name.startswith("state/d/") for name in needed)
    gc.collect()


@pytest.mark.parametrize("gone", ["commit_success.txt", "state", "metadata", "state/d"])
@leftovers
def test_a_state_that_is_half_deleted_is_damaged(tmp_path, gone):
    save(tmp_path, 1)
    path = tmp_path / "1" / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(DamagedError):
        verify_state(tmp_path / "1")
    gc.collect()


@leftovers
def test_a_state_that_its_run_deletes_meanwhile_is_no_damage(tmp_path, monkeypatch):
    monkeypatch.setattr(verifying, "GROUP", 1)
    save(tmp_path, 1)
    with Checkpoints(tmp_path, keep=1) as run:

        def train_on(count):
            if run.latest() == 1:
                run.save({**STATE, "step": jnp.int32(2)})
                run.wait()

        with pytest.raises(VanishedError):
            verify_state(tmp_path / "1", train_on)
        assert run.steps() == [2]
    gc.collect()
