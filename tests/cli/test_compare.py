import json
import shutil

import pytest

from cem_jax.cli.main import main
from cem_jax.data import Pipeline
from cem_jax.training import StoppedError


def test_runs_that_have_ended_stand_side_by_side(trained, tmp_path, capsys):
    other = tmp_path / "other"
    shutil.copytree(trained.path, other)
    out = tmp_path / "out"
    assert main(["compare", str(trained.path), str(other), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "cem (other)" in printed
    assert "test bits per byte" in printed
    assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_families_are_trained_first_on_the_same_batches(own_text, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("cem_jax.runs.sampling.SAMPLE", 2)
    rows_of, seen = Pipeline.rows_of, []

    def remember(self, step):
        seen.append(rows_of(self, step).tolist())
        return rows_of(self, step)

    monkeypatch.setattr(Pipeline, "rows_of", remember)
    out = tmp_path / "out"
    options = "--model.dim 16 --model.layers 1 --steps 2 --batch 2 --length 16 --tokenizer byte"
    line = ["compare", "llama", "cem", "--data", str(own_text), *options.split()]
    assert main([*line, "--out", str(out)]) == 0
    capsys.readouterr()
    for name in ("llama", "cem"):
        assert json.loads((out / name / "summary.json").read_text())["name"] == name
    # Two steps of the one, two of the other.
    assert len(seen) == 4
    assert seen[:2] == seen[2:]
    assert seen[0] != seen[1]
    # What has ended is not trained again.
    before = (out / "cem" / "summary.json").read_bytes()
    assert main([*line, "--out", str(out), "--resume"]) == 0
    assert (out / "cem" / "summary.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "runs: got none"),
        (["llama", "llama"], "runs: got llama twice"),
        (["llama"], "runs: got llama alone, expected at least two"),
        (["llama", "cem", "--model", "cem"], "model: got --model, expected the families by name"),
        (["lama"], "runs: got 'lama', expected the folder of a run"),
        (["EMPTY"], "which holds no run"),
    ],
)
def test_what_is_no_run_is_refused(arguments, message, tmp_path, capsys):
    arguments = [str(tmp_path) if word == "EMPTY" else word for word in arguments]
    assert main(["compare", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_run_that_has_not_ended_is_refused(trained, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained.path, run)
    (run / "summary.json").unlink()
    assert main(["compare", str(run)]) == 2
    assert "which has no summary, expected a run that has ended" in capsys.readouterr().err


def test_options_that_nothing_would_use_are_refused(trained, capsys):
    assert main(["compare", str(trained.path), "--steps", "5"]) == 2
    assert "got --steps where nothing is trained" in capsys.readouterr().err


def test_a_comparison_never_writes_into_a_run(trained, capsys):
    before = (trained.path / "loss.png").read_bytes()
    assert main(["compare", str(trained.path), "--out", str(trained.path)]) == 2
    assert "which holds a run, expected another folder" in capsys.readouterr().err
    assert (trained.path / "loss.png").read_bytes() == before


def test_a_comparison_that_is_stopped_says_how_to_go_on(own_text, tmp_path, capsys, monkeypatch):
    def stop(*arguments, **options):
        raise StoppedError(3)

    monkeypatch.setattr("cem_jax.runs.session.run", stop)
    line = ["compare", "llama", "cem", "--data", str(own_text), "--out", str(tmp_path / "out")]
    assert main(line) == 130
    captured = capsys.readouterr()
    assert "stopped after step 3, which is saved" in captured.err
    assert "the same line with --resume goes on" in captured.out


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        main(["compare", "--help"])
    assert "cem compare llama cem-context --steps 300" in capsys.readouterr().out
