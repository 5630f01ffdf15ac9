import json
import math

import jax
import numpy as np
import pytest

from cem_jax import CEMConfig, MHAConfig, Transformer
from cem_jax.cli import train as command
from cem_jax.cli import train_run
from cem_jax.cli.main import main
from cem_jax.cli.progress import Meter
from cem_jax.cli.run_folder import describe, next_folder
from cem_jax.cli.user_energy import UserEnergy
from cem_jax.data import Corpus
from cem_jax.evaluation.perplexity import make_row_nats, perplexity
from cem_jax.training import Checkpoints, NonFiniteError, initial_state, make_optimiser
from cem_jax.training.state import abstract

ENERGY = """
import jax.numpy as jnp
from cem_jax import Energy, fan_in, parameter

class Quadratic(Energy):
    def __init__(self, dim, *, rngs):
        self.w = parameter(fan_in(rngs, (dim, dim), dim), "D E")

    def __call__(self, u, context):
        return jnp.sum(jnp.square(u @ self.w[...]), axis=-1)

class PerBatch(Quadratic):
    def __call__(self, u, context):
        return jnp.sum(super().__call__(u, context), axis=-1)

class NeedsMore(Energy):
    def __init__(self, dim, heads, *, rngs):
        pass

class NoEnergy:
    pass
"""


@pytest.fixture
def energies(tmp_path):
    file = tmp_path / "energies.py"
    file.write_text(ENERGY)
    return file


@pytest.fixture
def no_work(monkeypatch):
    def refuse(*arguments):
        pytest.fail("work was begun")

    monkeypatch.setattr(train_run, "builtin_corpus", refuse)


def corpus():
    texts = [
        f"Message {n}: the state of the union is {'very ' * (n % 5)}strong.\n" for n in range(40)
    ]
    return Corpus.by_rank("tiny", [text * 20 for text in texts])


def test_help_teaches_every_option(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["train", "--help"])
    assert exit_.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for option in (
        "--model {llama,cem-attention,cem-mlp,cem}",
        "--steps",
        "--inner-steps",
        "--batch",
        "--length",
        "--vocabulary",
        "--learning-rate",
        "--seed",
        "--out",
        "--attention",
        "FILE.py:CLASS",
        "State of the Union",
    ):
        assert option in text


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "0"], "steps: got 0, expected a Python integer of at least 1"),
        (["--batch", "0"], "batch: got 0, expected a Python integer of at least 1"),
        (["--length", "-3"], "length: got -3, expected a Python integer of at least 1"),
        (["--inner-steps", "0"], "inner_steps: got 0, expected at least 1"),
        (["--vocabulary", "100"], "vocabulary: got 100, expected at least 320"),
        (["--learning-rate", "0"], "learning_rate: got 0.0, expected a positive number"),
        (["--learning-rate", "nan"], "learning_rate: got nan, expected a positive number"),
        (["--seed", "-1"], "seed: got -1"),
        (["--attention", "nothing"], "attention: got 'nothing', expected FILE.py:CLASS"),
        (["--attention", "missing.py:A"], "attention: got no file missing.py"),
    ],
)
def test_impossible_values_stop_before_any_work(arguments, message, capsys):
    assert main(["train", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("no_work")
def test_an_unknown_option_stops_with_its_name(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["train", "--learning-rat", "1"])
    assert exit_.value.code == 2
    assert "--learning-rate" in capsys.readouterr().err


@pytest.mark.usefixtures("no_work")
def test_no_run_overwrites_another(tmp_path, capsys):
    (tmp_path / "kept").write_text("precious")
    assert main(["train", "--out", str(tmp_path)]) == 2
    assert "which is not empty, expected a new folder" in capsys.readouterr().err
    assert main(["train", "--out", str(tmp_path / "kept")]) == 2
    assert "which is a file, expected a folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_the_default_folder_is_the_next_free_one(tmp_path):
    assert next_folder(tmp_path, "cem").name == "cem-001"
    (tmp_path / "cem-001").mkdir()
    assert next_folder(tmp_path, "cem").name == "cem-002"


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Quadratc", "expected one of its energies: Quadratic, PerBatch, NeedsMore. Did you mean"),
        ("NoEnergy", "which is no subclass of cem_jax.Energy"),
        ("NeedsMore", r"expected one that can be called as NeedsMore(dim, rngs=rngs)"),
        ("PerBatch", "expected one energy per position"),
    ],
)
def test_energies_that_cannot_work_stop_before_any_work(energies, name, message, tmp_path, capsys):
    out = tmp_path / "run"
    arguments = ["--attention", f"{energies}:{name}", "--length", "4", "--out", str(out)]
    assert main(["train", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.usefixtures("no_work")
def test_a_broken_file_says_how_it_broke(tmp_path, capsys):
    (tmp_path / "broken.py").write_text("1 / 0")
    assert main(["train", "--attention", f"{tmp_path / 'broken.py'}:A"]) == 2
    assert "fails with ZeroDivisionError: division by zero" in capsys.readouterr().err


def test_the_options_choose_the_model(energies):
    cem = command.model_config(command.Options(inner_steps=3))
    assert isinstance(cem.attention, CEMConfig)
    assert cem.attention.descent.steps == cem.mlp.descent.steps == 3
    assert cem.attention.energy.diagonal == "shared"
    assert cem.attention.descent.preconditioner is not None
    assert isinstance(command.model_config(command.Options(model="llama")).attention, MHAConfig)
    own = command.model_config(command.Options(model="llama", attention=f"{energies}:Quadratic"))
    assert isinstance(own.attention.energy, UserEnergy)
    assert own.attention.descent.steps == 2
    assert type(own.mlp) is type(command.model_config(command.Options(model="llama")).mlp)
    described = json.loads(json.dumps(describe(own)))
    assert described["attention"]["energy"]["factory"] == "Quadratic"
    assert len(described["attention"]["energy"]["source_hash"]) == 64


def test_a_run_without_a_finite_end_has_status_1(monkeypatch, tmp_path, capsys):
    def diverge(*arguments):
        raise NonFiniteError("loss: got nan at step 3")

    monkeypatch.setattr(train_run, "run", diverge)
    assert main(["train", "--out", str(tmp_path / "run")]) == 1
    assert "cem train: loss: got nan at step 3" in capsys.readouterr().err


def test_a_run_from_text_to_figures(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(train_run, "builtin_corpus", lambda name: corpus())
    monkeypatch.setattr(train_run, "SAMPLE", 5)
    out = tmp_path / "run"
    line = "--steps 4 --batch 2 --length 16 --vocabulary 330 --seed 3 --model cem"
    assert main(["train", *line.split(), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    for words in ("4 steps of 2 x 16 tokens", "validation loss", "test bits per byte", "A sample"):
        assert words in printed

    config = json.loads((out / "config.json").read_text())
    assert config["options"]["seed"] == 3
    assert config["model"]["attention"]["descent"]["steps"] == 2
    assert config["hashes"]["corpus"] == corpus().content_hash()
    assert config["versions"]["jax"] == jax.__version__

    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records if "loss" in record] == [1, 2, 3, 4]
    assert [record["step"] for record in records if "valid_loss" in record] == [1, 2, 3, 4]
    assert (out / "samples.txt").read_text().startswith("=== step 1\n")

    summary = json.loads((out / "summary.json").read_text())
    assert summary["parameters"] - summary["parameters_without_embeddings"] == 330 * 128
    assert 0 < summary["train_tokens"] <= 4 * 2 * 16
    assert summary["tokens_per_second"] > 0
    # P starts as the identity and has hardly moved.
    assert 0.5 < summary["least_eigenvalue_attention"] < 1.01
    assert 0.5 < summary["least_eigenvalue_mlp"] < 1.01
    np.testing.assert_allclose(summary["test_perplexity"], math.exp(summary["test_loss"]))
    same_figures_from_the_checkpoint(out, summary)


def same_figures_from_the_checkpoint(out, summary):
    options = command.Options(steps=4, batch=2, length=16, vocabulary=330, seed=0)
    model, training = command.model_config(options), command.training_config(options)
    text = train_run.Text.prepare(corpus(), 330, 16)
    assert (out / "tokenizer" / "tokenizer.model").read_bytes() == text.tokenizer.model
    optimiser = make_optimiser(training.optimiser, training.steps)
    graph, state = initial_state(
        lambda rngs: Transformer(model, rngs=rngs), optimiser, seed=training.seed
    )
    with Checkpoints(out / "checkpoints", train_run.identity(model, text)) as checkpoints:
        assert checkpoints.latest() == 4
        state, _ = checkpoints.restore(abstract(state))
    size = text.utf8_bytes("test")
    rows = train_run.evaluated_rows(text.test)
    again = perplexity(
        make_row_nats(graph), state["params"], text.test, batch=rows, utf8_bytes=size
    )
    assert again.loss == summary["test_loss"]
    assert again.bits_per_byte == summary["test_bits_per_byte"]


def test_the_rate_leaves_the_compilation_out():
    meter = Meter()
    assert meter.tokens_per_second == 0
    meter.record([{"tokens": 10.0, "seconds": 50.0}])
    assert meter.tokens_per_second == 10 / 50  # all there is
    meter.record([{"tokens": 10.0, "seconds": 52.0}, {"tokens": 30.0, "seconds": 52.0}])
    assert meter.tokens_per_second == 40 / 2
    assert meter.tokens == 50
