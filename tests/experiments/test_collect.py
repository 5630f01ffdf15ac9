"""What is kept of a run: its figures and course, and no place of the machine."""

import dataclasses
import json
import sys
from pathlib import Path

import pytest

from cem_jax.cli.sweep import config_of
from cem_jax.models import TransformerConfig
from cem_jax.runs.described import completed, describe
from cem_jax.runs.folder import RunFolder
from cem_jax.runs.sweep.spec import read_spec
from experiments.language_model import collect
from experiments.language_model.records import CORPUS, load_records

SPECS = Path(collect.__file__).parent


def run(path):
    folder = RunFolder(path)
    folder.create()
    energy = {"type": "UserEnergy", "spec": "/home/someone/gated.py:Gated"}
    config = {"data": {"source": "/home/someone/corpus.txt"}, "training": {"steps": 4}}
    config["model"] = {"parts": [{"energy": energy}]}
    stored = {"config": config, "hashes": {"corpus": "a"}, "versions": {"jax": "1"}}
    folder.write("config.json", {**stored, "machine": {"cpus": 1}})
    folder.append_metrics([{"step": n, "loss": 1.0 / n, "tokens": 8} for n in range(1, 5)])
    folder.append_metrics([{"step": 4, "valid_loss": 0.5}])
    return folder


SUMMARY = {"name": "x", "valid_loss": 0.5, "valid_bits_per_byte": 0.25, "sample": "text"}


def test_no_other_run_takes_the_place_of_one_that_is_kept(tmp_path):
    runs, to = tmp_path / "runs", tmp_path / "kept"
    folder = run(runs / "a-s0")
    folder.write("summary.json", SUMMARY)
    run(runs / "b-s0").write("summary.json", SUMMARY)
    # No run of a sweep, whatever it holds.
    run(runs / "tiny-small").write("summary.json", SUMMARY)
    assert collect.collect(runs, to) == 2
    assert collect.collect(runs, to) == 2
    before = {path: path.read_bytes() for path in to.iterdir()}
    assert len(before) == 2
    stored = json.loads((folder.path / "config.json").read_text())
    for key, value in (("config", {**stored["config"], "training": {}}), ("hashes", {"corpus": 1})):
        folder.write("config.json", {**stored, key: value})
        with pytest.raises(ValueError, match=f"got a run a-s0 whose {key} are not those in"):
            collect.collect(runs, to)
    assert {path: path.read_bytes() for path in to.iterdir()} == before


def test_records_of_two_texts_or_damaged_ones_are_refused(tmp_path):
    (tmp_path / "claims").mkdir()
    for name, text in (("a", "one"), ("b", "two")):
        record = {"variant": name, "seed": 0, "hashes": {"corpus": text}}
        (tmp_path / "claims" / f"{name}-s0.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"b-s0\.json of the text .*two.* as in a-s0\.json"):
        load_records("claims", tmp_path)
    (tmp_path / "claims" / "b-s0.json").write_text("{")
    with pytest.raises(ValueError, match=r"b-s0\.json, which cannot be read"):
        load_records("claims", tmp_path)


@pytest.mark.parametrize(
    "kind",
    [
        "claims",
        "tuning",
        "tuning-long",
        "tuning-eta",
        "families-0.02",
        "families-eta-1",
        "search",
        "search-2",
    ],
)
def test_what_is_committed_is_of_the_one_text(kind):
    records = load_records(kind)
    assert records
    assert records[0]["hashes"]["corpus"] == CORPUS


@pytest.mark.parametrize(
    ("kind", "specs"),
    [
        ("claims", ("families", "pairs", "best")),
        ("default", ("default",)),
        ("tuning", ("tuning",)),
        ("tuning-long", ("tuning-long",)),
        ("tuning-eta", ("tuning-eta",)),
        ("search", ("search",)),
        ("search-2", ("search-2",)),
    ],
)
def test_what_is_committed_was_run_as_the_sweeps_say(kind, specs, monkeypatch):
    """Every record has the whole configuration of its variant there."""
    # A spec names its own energy as it is seen from the top of the checkout.
    monkeypatch.chdir(SPECS.parents[1])
    configs = {
        variant.name: config_of(variant)
        for name in specs
        for variant in read_spec(SPECS / f"{name}.toml").variants
    }
    for record in load_records(kind):
        config = configs[record["variant"]]
        training = dataclasses.replace(config.training, seed=record["seed"])
        expected = collect.without_places(describe(dataclasses.replace(config, training=training)))
        assert completed(record["config"]) == json.loads(json.dumps(expected)), record["variant"]


def test_the_default_of_cem_train_is_the_best_that_was_run():
    (run,) = (v for v in read_spec(SPECS / "best.toml").variants if v.name == "context-full")
    assert config_of(run).model == TransformerConfig.micro("cem-context")


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
    assert kept["config"]["model"]["parts"][0]["energy"]["spec"] == "gated.py:Gated"
    assert kept["course"]["validation"] == [[4, 0.5]]
    assert kept["course"]["training"] == [[1, 1.0], [2, 0.5], [3, 0.33333], [4, 0.25]]
    assert "sample" not in kept
    assert "home" not in text
    # A point is a line.
    assert "   [4, 0.5]\n" in text
