"""`cem sweep` from end to end, with processes of its own."""

import dataclasses
import json
import shutil

import pytest

from cem_jax.cli.main import main
from cem_jax.runs.described import rebuild
from cem_jax.runs.lock import locked
from cem_jax.runs.sweep.planned import Planned
from cem_jax.runs.sweep.results import results

SPEC = """
seeds = [0, 1]
baseline = "llama"
[options]
data = "{text}"
tokenizer = "byte"
steps = 3
batch = 2
length = 8
record-every = 1
model.dim = 8
model.layers = 1
[[variants]]
name = "llama"
model = "llama"
"model.attention.heads" = 1
"model.mlp.features" = 8
[[variants]]
name = "wide"
model = "llama"
"model.attention.heads" = 1
"model.mlp.features" = 16
"""


@pytest.fixture
def spec(own_text, tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(SPEC.format(text=own_text))
    return path


@pytest.mark.slow
def test_a_sweep_runs_goes_on_after_a_kill_and_adds_the_test_when_asked(spec, tmp_path, capsys):
    out = tmp_path / "out"
    line = ["sweep", str(spec), "--out", str(out)]
    # Not a run: this one fails, and the rest is run.
    (out / "wide-s0").mkdir(parents=True)
    (out / "wide-s0" / "checkpoints").write_text("a file where a folder must be")
    assert main([*line, "--workers", "2"]) == 1
    said = capsys.readouterr()
    assert "wide, seed 0 failed" in said.err
    table = json.loads((out / "sweep.json").read_text())
    assert {(run["variant"], run["seed"]) for run in table["runs"]} == {
        ("llama", 0),
        ("llama", 1),
        ("wide", 1),
    }
    assert all("test_loss" not in run for run in table["runs"])
    # What was killed before its end is run again, what has ended is not.
    before = (out / "llama-s1" / "summary.json").read_bytes()
    shutil.rmtree(out / "wide-s0")
    (out / "llama-s0" / "summary.json").unlink()
    assert main(line) == 0
    said = capsys.readouterr().out
    assert "4 runs in" in said
    assert "2 of them to run" in said
    assert (out / "llama-s1" / "summary.json").read_bytes() == before
    assert (out / "sweep.png").read_bytes().startswith(b"\x89PNG")
    assert "llama" in (out / "sweep.txt").read_text()
    # The seed decides the order of the data, and all else of the training is equal.
    trainings = {
        path.name: json.loads((path / "config.json").read_text())["config"]["training"]
        for path in out.glob("*-s?")
    }
    assert {name: each.pop("seed") for name, each in trainings.items()} == {
        "llama-s0": 0,
        "llama-s1": 1,
        "wide-s0": 0,
        "wide-s1": 1,
    }
    assert all(each == trainings["llama-s0"] for each in trainings.values())
    assert main([*line, "--report", "test"]) == 0
    assert "4 of them to run" in capsys.readouterr().out
    table = json.loads((out / "sweep.json").read_text())
    assert all("test_loss" in run for run in table["runs"])


def test_all_options_are_checked_before_the_first_run(spec, tmp_path, capsys):
    spec.write_text(spec.read_text() + "steps = 0\n")
    out = tmp_path / "out"
    assert main(["sweep", str(spec), "--out", str(out)]) == 2
    assert "spec: in 'wide': steps: got 0" in capsys.readouterr().err
    spec.write_text(spec.read_text().replace("steps = 0", "stepps = 5"))
    assert main(["sweep", str(spec), "--out", str(out)]) == 2
    assert "got options of 'wide' that cem train does not take" in capsys.readouterr().err
    assert not out.exists()


def test_variants_of_two_texts_are_refused(spec, own_text, tmp_path, capsys):
    same, other = tmp_path / "same.txt", tmp_path / "other.txt"
    same.write_bytes(own_text.read_bytes())
    other.write_bytes(own_text.read_bytes() + b"more")
    line = ["sweep", str(spec), "--out", str(tmp_path / "out"), "--dry-run"]
    text = spec.read_text()
    spec.write_text(f'{text}data = "{same}"\n')
    assert main(line) == 0
    spec.write_text(f'{text}data = "{other}"\n')
    assert main(line) == 2
    assert "another text than" in capsys.readouterr().err
    spec.write_text(text.replace(str(own_text), str(tmp_path / "gone.txt")))
    assert main(line) == 2
    assert "gone.txt', where there is nothing" in capsys.readouterr().err


def test_what_cannot_be_written_is_said_in_a_line(spec, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("x")
    line = ["sweep", str(spec), "--out"]
    assert main([*line, str(tmp_path / "file")]) == 2
    assert "file, which cannot be made (File exists)" in capsys.readouterr().err

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cem_jax.cli.sweep.run_all", full)
    assert main([*line, str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "No space left on device; the same line goes on" in said
    with locked(tmp_path / "out"):
        assert main([*line, str(tmp_path / "out")]) == 2
    assert "in which another process" in capsys.readouterr().err


def test_what_has_ended_is_shown_though_it_lacks_the_test(trained, tmp_path):
    """A sweep whose test was asked for and failed still has its figures."""
    path = tmp_path / "own-s0"
    shutil.copytree(trained.path, path)
    kept = {k: v for k, v in trained.summary.items() if not k.startswith("test")}
    (path / "summary.json").write_text(json.dumps(kept))
    planned = Planned("own", 0, rebuild(trained.config["config"]), path)
    assert planned.summary("test") is None
    (found,) = results([planned])
    assert found.summary == kept


def test_a_dry_run_lists_the_runs(spec, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["sweep", str(spec), "--out", str(out), "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[1:] == [
        f"  {name}, seed {seed}" for seed in (0, 1) for name in ("llama", "wide")
    ]
    assert not out.exists()


def test_a_folder_with_a_run_of_another_configuration_is_refused(spec, trained, tmp_path, capsys):
    out = tmp_path / "out"
    shutil.copytree(trained.path, out / "llama-s0")
    assert main(["sweep", str(spec), "--out", str(out)]) == 2
    assert "got options that are not those of the run in this folder" in capsys.readouterr().err
    assert main(["sweep", str(spec), "--out", str(trained.path)]) == 2
    assert "which holds a run, expected another folder" in capsys.readouterr().err
    assert main(["sweep", str(spec), "--workers", "0"]) == 2
    assert "workers: got 0" in capsys.readouterr().err


def test_a_run_that_has_ended_counts_for_its_own_text_alone(trained, tmp_path):
    """Wherever the text lies: by what it says, and by the tokenizer."""
    config = rebuild(trained.config["config"])

    def planned(**data):
        data = dataclasses.replace(config.data, **data)
        return Planned("own", 0, dataclasses.replace(config, data=data), trained.path)

    moved, changed = tmp_path / "moved.txt", tmp_path / "changed.txt"
    moved.write_bytes(trained.text.read_bytes())
    changed.write_bytes(trained.text.read_bytes() + b"more")
    assert planned().summary("full") == trained.summary
    assert planned(source=str(moved)).summary("full") == trained.summary
    with pytest.raises(ValueError, match=r"corpus: .* The folder is "):
        planned(source=str(changed)).summary("full")
    with pytest.raises(ValueError, match=r"tokenizer: .* 'train:340' asked"):
        planned(tokenizer="train:340").summary("full")


def test_a_tokenizer_is_known_by_what_it_is_wherever_it_lies(trained, tmp_path):
    here, moved, run = tmp_path / "here", tmp_path / "moved", tmp_path / "run"
    shutil.copytree(trained.path, run)
    for place in (here, moved):
        shutil.copytree(trained.path / "tokenizer", place)
    config = rebuild(trained.config["config"])

    def planned(place):
        data = dataclasses.replace(config.data, tokenizer=str(place))
        return Planned("own", 0, dataclasses.replace(config, data=data), run)

    stored = json.loads((run / "config.json").read_text())
    stored["config"]["data"]["tokenizer"] = str(here)
    (run / "config.json").write_text(json.dumps(stored))
    assert planned(moved).summary("full") == trained.summary
    stored["hashes"]["tokenizer"] = "another"
    (run / "config.json").write_text(json.dumps(stored))
    with pytest.raises(ValueError, match="tokenizer: 'another' there"):
        planned(moved).summary("full")
