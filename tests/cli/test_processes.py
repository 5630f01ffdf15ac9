"""`cem train --processes`: several processes train what one trains, stop together and resume."""

import json
import os
import shutil
import signal
import sys
import time

import jax
import numpy as np
import pytest
import small_run
from several import Several

from cem_jax.cli.main import main
from cem_jax.runs.loading import load


def started(count, *arguments):
    return Several(count, [sys.executable, "-m", "cem_jax.cli.main", *arguments])


def ran(count, *arguments):
    statuses, said = started(count, *arguments).ended()
    assert statuses == [0] * count, said
    return said


def records(path):
    lines = map(json.loads, (path / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def losses(path):
    return [line["loss"] for line in records(path) if "loss" in line]


def as_if_killed_after(step, path, copy):
    """A copy of a run whose states after ``step`` were never written."""
    shutil.copytree(path, copy)
    (copy / "summary.json").unlink()
    for state in (copy / "checkpoints").iterdir():
        if int(state.name) > step:
            shutil.rmtree(state)
    return copy


def require_bit_equal(run, other):
    """The same parameters, losses and figures."""
    assert records(run) == records(other)
    leaves = (jax.tree.leaves(load(path).params) for path in (run, other))
    for a, b in zip(*leaves, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.fixture(scope="module")
def two(own_text, tmp_path_factory):
    """A run of two processes, and what they printed."""
    path = tmp_path_factory.mktemp("two") / "run"
    return path, ran(2, *small_run.arguments(own_text, path, "--mesh", "fsdp"))


def test_two_processes_train_what_one_trains(trained, two):
    path, said = two
    np.testing.assert_allclose(losses(path), losses(trained.path), rtol=2e-6)
    one, summary = trained.summary, json.loads((path / "summary.json").read_text())
    for name in ("valid_loss", "test_loss"):
        np.testing.assert_allclose(summary[name], one[name], rtol=2e-6)
    assert summary["references"] == one["references"]
    # The first speaks for both.
    assert "what the run reached" in said[0][0]
    assert "reached" not in said[1][0]


@pytest.mark.slow
def test_they_resume_bit_equal_and_pass_over_what_one_of_them_cannot_read(two, tmp_path):
    path, _ = two
    copy = tmp_path / "run"
    shutil.copytree(path, copy)
    (copy / "summary.json").unlink()
    # Arrays that the second process reads and the first does not.
    largest = max((copy / "checkpoints/6/state/ocdbt.process_1/d").iterdir(), key=os.path.getsize)
    os.truncate(largest, 20)
    said = ran(2, "train", "--resume", "--out", copy, "--mesh", "fsdp")
    assert "step 6 cannot be read" in said[0][0]
    assert "going on from the state of step 4" in said[0][0]
    assert (copy / "checkpoints-damaged/6").is_dir()
    require_bit_equal(copy, path)


@pytest.mark.slow
def test_four_processes_resume_bit_equal_and_one_goes_on(own_text, trained, tmp_path):
    four, mesh = tmp_path / "four", ("--mesh", "fsdp=2,context=2")
    ran(4, *small_run.arguments(own_text, four, *mesh))
    again = as_if_killed_after(4, four, tmp_path / "again")
    ran(4, "train", "--resume", "--out", again, *mesh)
    require_bit_equal(again, four)
    one = as_if_killed_after(4, four, tmp_path / "one")
    assert main(["train", "--resume", "--out", str(one)]) == 0
    for path in (four, one):
        np.testing.assert_allclose(losses(path), losses(trained.path), rtol=2e-6)


@pytest.mark.slow
def test_they_start_from_the_weights_that_one_starts_from(own_text, trained, tmp_path):
    line = ["--steps", "2", "--start", str(trained.path)]
    ran(2, *small_run.arguments(own_text, tmp_path / "two", "--mesh", "fsdp", *line))
    assert main(small_run.arguments(own_text, tmp_path / "one", *line)) == 0
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "one"), rtol=2e-6)
    assert losses(tmp_path / "two")[0] < 0.9 * losses(trained.path)[0]


@pytest.mark.slow
def test_a_signal_to_one_of_two_stops_both_after_one_step_with_their_state_saved(
    own_text, tmp_path
):
    path = tmp_path / "run"
    often = ("--steps", "100000", "--record-every", "1", "--save-every", "5")
    never = ("--evaluate-every", "100000")
    several = started(2, *small_run.arguments(own_text, path, "--mesh", "fsdp", *often, *never))
    several.until((path / "metrics.jsonl").is_file)
    begin = time.monotonic()
    several.processes[1].send_signal(signal.SIGTERM)
    statuses, said = several.ended()
    assert statuses == [0, 0], said
    assert time.monotonic() - begin < 60
    step = load(path).step
    assert len(losses(path)) == step > 0
    assert all(f"stopped after step {step}, which is saved" in error for _, error in said)
    # Again from there, where Orbax asks the same service at each save.
    several = started(2, "train", "--resume", "--out", path, "--mesh", "fsdp")
    several.until(lambda: len(losses(path)) >= step + 20)
    several.processes[0].send_signal(signal.SIGTERM)
    statuses, said = several.ended()
    assert statuses == [0, 0], said
    assert step + 20 <= load(path).step < step + 5000


@pytest.mark.slow
def test_a_process_that_is_killed_takes_the_other_with_it_at_once(own_text, tmp_path):
    path = tmp_path / "run"
    several = started(
        2, *small_run.arguments(own_text, path, "--mesh", "fsdp", "--steps", "100000")
    )
    several.until((path / "metrics.jsonl").is_file)
    several.processes[1].kill()
    begin = time.monotonic()
    statuses, said = several.ended()
    assert time.monotonic() - begin < 30
    assert statuses == [1, -signal.SIGKILL]
    assert "another process has gone" in said[0][1]
    assert "cem train --resume --out" in said[0][1]


def test_what_cannot_find_each_other_is_told(own_text, tmp_path, capsys):
    for more, message in (
        (("--processes", "2/2@127.0.0.1:7601"), "an index below the count, such as"),
        (("--processes", "first"), "expected 'auto', or INDEX/COUNT@HOST:PORT"),
    ):
        assert main(small_run.arguments(own_text, tmp_path / "run", *more)) == 2
        assert message in capsys.readouterr().err
    line = ["train", "--data", str(own_text), "--processes", "0/1@127.0.0.1:7601"]
    assert main(line) == 2
    assert "expected --out RUN, one for all" in capsys.readouterr().err
