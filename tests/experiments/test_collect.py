"""What is kept of a run: its figures and course, and no place of the machine."""

import json
import sys

from cem_jax.runs.folder import RunFolder
from experiments.language_model import collect


def run(path):
    folder = RunFolder(path)
    folder.create()
    config = {"data": {"source": "/home/someone/corpus.txt"}, "training": {"steps": 4}}
    stored = {"config": config, "hashes": {"corpus": "a"}, "versions": {"jax": "1"}}
    folder.write("config.json", {**stored, "machine": {"cpus": 1}})
    folder.append_metrics([{"step": n, "loss": 1.0 / n, "tokens": 8} for n in range(1, 5)])
    folder.append_metrics([{"step": 4, "valid_loss": 0.5}])
    return folder


SUMMARY = {"name": "x", "valid_loss": 0.5, "valid_bits_per_byte": 0.25, "sample": "text"}


def test_runs_that_have_ended_become_files(tmp_path, monkeypatch, capsys):
    run(tmp_path / "runs" / "a-s1-s12").write("summary.json", SUMMARY)
    run(tmp_path / "runs" / "b-s0")
    (tmp_path / "runs" / "sweep.json").write_text("{}")
    monkeypatch.setattr(collect, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(sys, "argv", ["collect", str(tmp_path / "runs")])
    collect.main()
    assert "1 runs" in capsys.readouterr().out
    (path,) = (tmp_path / "results" / "claims").iterdir()
    assert path.name == "a-s1-s12.json"
    text = path.read_text()
    kept = json.loads(text)
    assert (kept["variant"], kept["seed"]) == ("a-s1", 12)
    assert kept["valid_bits_per_byte"] == 0.25
    assert kept["config"]["data"]["source"] == "corpus.txt"
    assert kept["course"]["validation"] == [[4, 0.5]]
    assert kept["course"]["training"] == [[1, 1.0], [2, 0.5], [3, 0.33333], [4, 0.25]]
    assert "sample" not in kept
    assert "home" not in text
    # A point is a line.
    assert "   [4, 0.5]\n" in text
