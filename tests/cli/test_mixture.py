"""A run on several prepared folders: its figures by source, and its weights for good."""

import json

import pytest
import small_run
from small_run import stop_after

from cem_jax.cli.main import main
from cem_jax.data import PrepareConfig, PreparedCorpus, prepare

AT = small_run.SMALL.index("--tokenizer")
SMALL = [*small_run.SMALL[:AT], *small_run.SMALL[AT + 2 :]]


def write(root, weight):
    """A mixture of two folders beside it."""
    tables = (f'[{name}]\nfolder = "{name}"\nweight = {w}\n' for name, w in weight.items())
    (root / "mixture.toml").write_text("".join(tables))
    return root / "mixture.toml"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("mixture")
    for name, documents in (("books", 40), ("web", 9)):
        (root / f"{name}.text").mkdir()
        for split in ("train", "validation", "test"):
            lines = (json.dumps({"text": f"{name} {split} {n}"}) + "\n" for n in range(documents))
            (root / f"{name}.text" / f"{split}.jsonl").write_text("".join(lines))
        prepare(PrepareConfig(str(root / f"{name}.text"), "byte", 16), root / name)
    return root


@pytest.mark.slow
def test_a_run_on_a_mixture(root, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("cem_jax.runs.sampling.SAMPLE", 5)
    out = tmp_path / "run"
    data = write(root, {"books": 0.75, "web": 0.25})
    assert stop_after(3, ["train", "--data", str(data), *SMALL, "--out", str(out)], monkeypatch)
    capsys.readouterr()
    # Other weights are another text.
    write(root, {"books": 0.5, "web": 0.25})
    assert main(["train", "--resume", "--out", str(out)]) == 2
    assert "mixture.books.weight: 0.75 there, 0.5 asked" in capsys.readouterr().err
    # Another order of the tables is none.
    write(root, {"web": 0.25, "books": 0.75})
    assert main(["train", "--resume", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "going on from the state of step 3" in printed
    summary = json.loads((out / "summary.json").read_text())
    corpora = {name: PreparedCorpus.open(root / name) for name in ("books", "web")}
    for split in ("valid", "test"):
        figures = summary[f"{split}_by_source"]
        assert list(figures) == ["books", "web"]
        tokens = {name: corpus.rows(split).predicted for name, corpus in corpora.items()}
        nats = sum(figures[name][f"{split}_loss"] * tokens[name] for name in tokens)
        assert summary[f"{split}_loss"] == pytest.approx(nats / sum(tokens.values()), rel=1e-12)
        loss = format(figures["web"][f"{split}_loss"], ".4f")
        assert any(f"web, {split} loss" in line and loss in line for line in printed.splitlines())
    # On the way all rows were seen, too few to leave some out.
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    seen = next(record for record in records if "valid_loss" in record)
    size = {name: corpus.utf8_bytes("valid") for name, corpus in corpora.items()}
    bits = sum(seen[f"valid_bits_per_byte/{name}"] * size[name] for name in size)
    assert seen["valid_bits_per_byte"] == pytest.approx(bits / sum(size.values()), rel=1e-12)
    capsys.readouterr()
    assert main(["evaluate", str(out)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Equal to summary.json, to the last digit" in printed
    assert "books, test bits per byte" in printed
