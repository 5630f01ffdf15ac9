import json
import shutil

import pytest

from cem_jax.cli.main import main


def test_the_figures_of_a_run_are_those_of_its_end_to_the_last_digit(trained, tmp_path, capsys):
    file = tmp_path / "figures.json"
    assert main(["evaluate", str(trained.path), "--json", str(file)]) == 0
    assert "Equal to summary.json, to the last digit." in capsys.readouterr().out
    figures = json.loads(file.read_text())
    assert figures["step"] == 6
    for name in ("valid_loss", "test_loss", "test_perplexity", "test_bits_per_byte"):
        assert figures[name] == trained.summary[name]


def test_other_inner_steps_give_other_figures(trained, tmp_path):
    file = tmp_path / "figures.json"
    assert main(["evaluate", str(trained.path), "--inner-steps", "3", "--json", str(file)]) == 0
    assert json.loads(file.read_text())["test_loss"] != trained.summary["test_loss"]


def test_another_text_can_be_evaluated_on(trained, tmp_path, capsys):
    other = tmp_path / "other.txt"
    other.write_text("Something else entirely. " * 200)
    assert main(["evaluate", str(trained.path), "--data", str(other)]) == 0
    assert "summary.json" not in capsys.readouterr().out


def test_a_text_that_was_changed_is_refused(trained, tmp_path, capsys):
    run, text = tmp_path / "run", tmp_path / "text.txt"
    shutil.copytree(trained.path, run)
    text.write_bytes(trained.text.read_bytes() + b" And more.")
    config = json.loads((run / "config.json").read_text())
    config["config"]["data"]["source"] = str(text)
    (run / "config.json").write_text(json.dumps(config))
    assert main(["evaluate", str(run)]) == 2
    assert "not the one the run was trained on (another SHA-256)" in capsys.readouterr().err
    # The states know what they belong to, too.
    config["hashes"]["corpus"] = "0" * 64
    (run / "config.json").write_text(json.dumps(config))
    assert main(["evaluate", str(run)]) == 2
    assert "of another model, optimiser or text" in capsys.readouterr().err


def test_the_best_state_on_the_way_can_be_evaluated(trained, tmp_path, capsys):
    assert main(["evaluate", str(trained.path), "--state", "best"]) == 0
    losses = {r["step"]: r["valid_loss"] for r in _evaluations(trained.path)}
    best = min(losses, key=losses.get)
    assert f"state of step {best}" in " ".join(capsys.readouterr().out.split())


def _evaluations(path):
    lines = map(json.loads, (path / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if "valid_loss" in line]


def test_a_damaged_newest_state_is_told_and_left_where_it_is(trained, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained.path, run)
    (run / "checkpoints" / "6" / "metadata" / "metadata").write_text("{")
    assert main(["evaluate", str(run)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "step 6 cannot be read" in printed
    assert "state of step 4" in printed
    assert (run / "checkpoints" / "6").exists()


def test_a_run_is_read_from_another_directory(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", str(trained.path)]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "run: got no file nowhere/config.json, expected the folder of a run"),
        (
            ["RUN", "--json", "nowhere/x.json"],
            "json: got nowhere/x.json, expected a file",
        ),
        (["RUN", "--inner-steps", "0"], "inner_steps: got 0, expected at least 1"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(trained, arguments, message, capsys):
    arguments = [str(trained.path) if word == "RUN" else word for word in arguments]
    assert main(["evaluate", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_run_without_a_state_is_refused(trained, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained.path, run)
    shutil.rmtree(run / "checkpoints")
    assert main(["evaluate", str(run)]) == 2
    assert "without a saved state" in capsys.readouterr().err


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "to the last digit" in text
    assert "--inner-steps" in text
