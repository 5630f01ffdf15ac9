"""A run that was stopped, killed or damaged ends as the one that was not."""

import gc
import json
import re
import shutil

import jax
import numpy as np
import pytest
import small_run
from small_run import stop_after

from cem_jax.cli.main import main
from cem_jax.runs.loading import load
from cem_jax.runs.lock import locked


@pytest.fixture(autouse=True)
def short_samples(monkeypatch):
    monkeypatch.setattr("cem_jax.runs.sampling.SAMPLE", 5)


def assert_ended_equal(trained, path):
    one, other = load(trained.path), load(path)
    assert one.step == other.step == 6
    for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(other.params), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    assert metrics(trained.path) == metrics(path)
    assert (trained.path / "samples.txt").read_bytes() == (path / "samples.txt").read_bytes()
    summary = json.loads((path / "summary.json").read_text())
    for name in ("test_loss", "valid_loss", "train_tokens", "sample"):
        assert summary[name] == trained.summary[name]


def metrics(path):
    lines = map(json.loads, (path / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


@pytest.fixture
def stopped(own_text, tmp_path, monkeypatch, capsys):
    out = tmp_path / "run"
    assert stop_after(5, small_run.arguments(own_text, out), monkeypatch) == 130
    assert "stopped after step 5, which is saved" in capsys.readouterr().err
    return out


def test_a_run_that_is_stopped_saves_and_goes_on_bit_equal(trained, stopped, capsys):
    assert [record["step"] for record in metrics(stopped)] == [1, 2, 3, 4, 4, 5]
    assert not (stopped / "summary.json").exists()
    assert main(["train", "--resume", "--out", str(stopped)]) == 0
    assert "going on from the state of step 5" in capsys.readouterr().out
    assert_ended_equal(trained, stopped)


def test_a_longer_run_is_refused_with_its_schedule_and_what_to_do_instead(
    trained, own_text, capsys
):
    longer = small_run.arguments(own_text, trained.path, "--resume", "--steps", "9")
    assert main(longer) == 2
    error = capsys.readouterr().err
    assert "got 9 steps for a run of 6, expected 6" in error
    assert "wsd over 6 steps: up to 0.01 at step 0, from step 4 in a line down to 0.0005" in error
    assert "cem train --start RUN --steps 3" in error
    # Another option beside it, or fewer steps: the differences.
    assert main([*longer, "--batch", "4"]) == 2
    assert "training.steps: 6 there, 9 asked; training.batch" in capsys.readouterr().err


def largest(folder):
    return max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)


def truncate(state):
    file = largest(state)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(state):
    file = largest(state)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)


def empty(state):
    shutil.rmtree(state)
    state.mkdir()


def test_a_run_of_a_version_without_an_option_goes_on(trained, stopped):
    """What its config and its states do not name yet is at its default: no difference."""
    older = [stopped / "config.json", *stopped.glob("checkpoints/*/metadata/metadata")]
    config = stopped / "config.json"
    assert {"accumulate", "non_finite"} <= set(json.loads(config.read_text())["config"]["training"])
    touched = 0
    for file in older:
        text = file.read_text()
        cut = text.replace('"momentum": 0.0, ', "").replace('"momentum":0.0,', "")
        cut = re.sub(r'\n *"(momentum": 0.0|accumulate": 1|non_finite": "stop"),', "", cut)
        touched += cut != text
        file.write_text(cut)
    assert touched > 1, "config.json and the states tell what they belong to"
    assert "accumulate" not in config.read_text()
    line = ["train", "--out", str(stopped), "--resume"]
    assert main(line) == 0
    assert_ended_equal(trained, stopped)


# After a failed read Orbax drops a coroutine that it never awaited.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("damage", [truncate, flip, empty])
def test_a_damaged_state_is_set_aside_loudly_and_the_one_before_it_taken(
    damage, trained, tmp_path, capsys
):
    run = tmp_path / "run"
    shutil.copytree(trained.path, run)
    (run / "summary.json").unlink()
    damage(run / "checkpoints" / "6")
    assert main(["train", "--resume", "--out", str(run)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "the state of step 6 cannot be read" in printed
    assert "going on from the state of step 4" in printed
    assert (run / "checkpoints-damaged" / "6").is_dir()
    assert_ended_equal(trained, run)
    gc.collect()


def test_a_run_that_was_killed_before_its_first_state_begins_again(trained, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained.path, run)
    for name in ("summary.json", "samples.txt"):
        (run / name).unlink()
    shutil.rmtree(run / "tokenizer")
    # A write that was cut off leaves a temporary name only.
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "4.orbax-checkpoint-tmp").mkdir()
    assert main(["train", "--resume", "--out", str(run)]) == 0
    assert "going on" not in capsys.readouterr().out
    assert_ended_equal(trained, run)


def test_the_same_line_begins_and_resumes(own_text, tmp_path, monkeypatch, trained):
    """As a scheduler does, which starts what was preempted by the line it was given."""
    line = [*small_run.arguments(own_text, tmp_path / "run"), "--resume"]
    # In the step that is evaluated, and in the last.
    assert stop_after(4, line, monkeypatch) == 130
    assert stop_after(2, line, monkeypatch) == 130
    assert main(line) == 0
    assert_ended_equal(trained, tmp_path / "run")


def test_two_processes_never_train_in_one_folder(stopped, capsys):
    """The second would clean away what the first is writing, and double its metrics."""
    before = (stopped / "metrics.jsonl").read_bytes()
    with locked(stopped):
        assert main(["train", "--resume", "--out", str(stopped)]) == 2
    assert "in which another process works" in capsys.readouterr().err
    assert (stopped / "metrics.jsonl").read_bytes() == before


@pytest.mark.slow
def test_a_run_goes_on_with_other_micro_batches_and_is_told(own_text, stopped, trained, capsys):
    """In step 6 alone: sums in another order, as on another mesh."""
    line = small_run.arguments(own_text, stopped, "--resume", "--accumulate", "2")
    assert main(line) == 0
    assert "with other sums (accumulate: 1 there, 2 asked)" in capsys.readouterr().out
    *before, last, valid = metrics(stopped)
    *same, expected, expected_valid = metrics(trained.path)
    assert before == same
    np.testing.assert_allclose(last["loss"], expected["loss"], rtol=2e-6)
    np.testing.assert_allclose(valid["valid_loss"], expected_valid["valid_loss"], rtol=2e-6)
    assert last["tokens"] == expected["tokens"]


def test_another_machine_is_told(stopped, capsys):
    config = json.loads((stopped / "config.json").read_text())
    config["versions"]["jaxlib"] = "0.0.1"
    (stopped / "config.json").write_text(json.dumps(config))
    assert main(["train", "--resume", "--out", str(stopped)]) == 0
    printed = capsys.readouterr().out
    assert "begun elsewhere (jaxlib: '0.0.1' there" in printed
    assert "may differ" in printed


def test_a_loss_that_is_not_finite_names_step_and_rows_and_sets_its_state_aside(
    own_text, tmp_path, capsys
):
    out = tmp_path / "run"
    # A rate that float32 cannot bear.
    wild = ["--optimiser.adam-learning-rate", "1e30", "--save-every", "1", "--record-every", "1"]
    assert main(small_run.arguments(own_text, out, *wild)) == 1
    error = capsys.readouterr().err
    assert "expected a finite number" in error
    assert "The batch of that step is the rows " in error
    # The state that the loss was of is the one that may be spoilt.
    suspect = [int(path.name) for path in (out / "checkpoints-damaged").iterdir()]
    losses = [record["step"] for record in metrics(out) if "loss" in record]
    assert suspect == losses[-1:]
    assert not (out / "checkpoints" / str(suspect[0])).exists()
