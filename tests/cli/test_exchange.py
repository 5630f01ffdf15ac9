import json

import numpy as np
import pytest

from cem_jax.cli.main import main
from cem_jax.runs.loading import load


@pytest.fixture
def exported(trained, tmp_path, capsys):
    assert main(["export", str(trained.path), "--to", str(tmp_path / "weights")]) == 0
    capsys.readouterr()
    return tmp_path / "weights"


def test_what_is_exported_and_imported_is_the_same_model(trained, exported, tmp_path, capsys):
    names = {path.name for path in exported.iterdir()}
    assert names == {"model.safetensors", "config.json", "tokenizer"}
    assert main(["import", str(exported), "--to", str(tmp_path / "run")]) == 0
    one, other = load(trained.path), load(tmp_path / "run")
    assert one.config == other.config
    assert one.step == other.step
    leaves = zip(_leaves(one.params), _leaves(other.params), strict=True)
    assert all(np.array_equal(a, b) for a, b in leaves)
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run"), "--json", str(tmp_path / "f.json")]) == 0
    figures = json.loads((tmp_path / "f.json").read_text())
    assert figures["test_loss"] == trained.summary["test_loss"]


def _leaves(params):
    import jax

    return [np.asarray(leaf) for leaf in jax.tree.leaves(params)]


def test_another_run_starts_from_imported_weights(trained, exported, tmp_path, monkeypatch):
    monkeypatch.setattr("cem_jax.runs.sampling.SAMPLE", 2)
    start, out = tmp_path / "start", tmp_path / "out"
    assert main(["import", str(exported), "--to", str(start)]) == 0
    # It brings its model and its tokenizer; T may be another.
    line = ["train", "--start", str(start), "--data", str(trained.text), "--out", str(out)]
    steps = ["--steps", "1", "--batch", "2", "--length", "16", "--inner-steps", "3"]
    assert main([*line, *steps]) == 0
    first = json.loads((out / "metrics.jsonl").read_text().splitlines()[0])
    # Six steps have taught it something: the first loss is not that of fresh parameters.
    fresh = json.loads((trained.path / "metrics.jsonl").read_text().splitlines()[0])
    assert first["loss"] < fresh["loss"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model.dim", "32"], "start: "),
        (["--tokenizer", "byte"], "start: got a run of another tokenizer"),
        (["--start", "nowhere"], "run: got no file nowhere"),
    ],
)
def test_a_start_that_does_not_fit_is_refused_before_any_work(
    trained, tmp_path, capsys, options, message
):
    out = tmp_path / "out"
    line = ["train", "--start", str(trained.path), "--data", str(trained.text), "--out", str(out)]
    assert main([*line, *options]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("command", ["export", "import"])
def test_nothing_is_overwritten(command, trained, exported, capsys):
    source = trained.path if command == "export" else exported
    assert main([command, str(source), "--to", str(exported)]) == 2
    assert "which exists, expected a new folder" in capsys.readouterr().err


def test_a_damaged_export_is_refused(exported, tmp_path, capsys):
    weights = exported / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert main(["import", str(exported), "--to", str(tmp_path / "run")]) == 2
    assert "model.safetensors" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_run_is_no_export(trained, tmp_path, capsys):
    assert main(["import", str(trained.path), "--to", str(tmp_path / "run")]) == 2
    assert "which is a run, expected exported weights" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["export", "import"])
def test_help_teaches(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "safetensors" in capsys.readouterr().out
