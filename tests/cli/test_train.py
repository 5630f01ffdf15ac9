import dataclasses
import json
import math
import shutil
import signal
import subprocess

import jax
import numpy as np
import pytest
import small_run

from cem_jax import CEMConfig, MHAConfig, Recipe, StepSizeConfig, TransformerConfig
from cem_jax.cli.main import main
from cem_jax.cli.train import Where
from cem_jax.cli.train_options import parse
from cem_jax.runs import session
from cem_jax.runs.described import describe
from cem_jax.runs.user_energy import UserEnergy
from cem_jax.training import AdamWConfig, MuonConfig, NonFiniteError, StoppedError

ENERGY = """
import jax.numpy as jnp
from flax import nnx
from cem_jax import Energy, fan_in, parameter

class Quadratic(Energy):
    def __init__(self, dim, *, rngs):
        self.w = parameter(fan_in(rngs, (dim, dim), dim), "D E")

    def __call__(self, u, context):
        return jnp.sum(jnp.square(u @ self.w[...]), axis=-1)

class Unnamed(Energy):
    def __init__(self, dim, *, rngs):
        self.w = nnx.Param(fan_in(rngs, (dim, dim), dim))

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

    monkeypatch.setattr(session, "fit", refuse)


def parsed(*arguments):
    return parse(list(arguments), program="cem train", base=Where, description="")[0]


def test_help_teaches_every_option(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["train", "--help"])
    assert exit_.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for option in (
        "--model {llama,cem-attention,cem-mlp,cem,cem-context}",
        "--preset {micro,tiny,small,paper}",
        "--steps",
        "--inner-steps",
        "--batch",
        "--length",
        "--accumulate",
        "--non-finite {stop,skip}",
        "--data",
        "--tokenizer",
        "--optimiser {muon,adamw}",
        "--optimiser.learning-rate",
        "--optimiser.schedule.warmup",
        "--model.attention.energy.diagonal {none,head,shared}",
        "--model.attention.descent.preconditioner {on,none}",
        "--model.mlp.energy.features",
        "--seed",
        "--out",
        "--resume",
        "--attention",
        "FILE.py:CLASS",
        "State of the Union",
        "one per head multiplies them by 1 + H",  # the fields' own documentation
    ):
        assert option in text
    assert "none is H" in text
    assert "None is" not in text


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "0"], "steps: got 0, expected at least 1"),
        (["--batch", "0"], "batch: got 0, expected at least 1"),
        (["--length", "-3"], "length: got -3, expected at least 1"),
        (["--inner-steps", "0"], "inner_steps: got 0, expected at least 1"),
        (["--model", "llama", "--inner-steps", "2"], "inner_steps: got 2 for a llama"),
        (["--tokenizer", "train:100"], "vocabulary: got 100, expected at least 320"),
        (["--tokenizer", "trian:512"], "Did you mean train:512?"),
        (["--data", "stou"], "Did you mean sotu?"),
        (["--optimiser.learning-rate", "0"], "learning_rate: got 0.0, expected a finite positive"),
        (["--optimiser.schedule.warmup", "1"], "warmup: got 1.0, expected a number in [0, 1)"),
        (["--model.dim", "30"], "heads: got 4 for width 30, expected a divisor"),
        (
            ["--model", "cem", "--model.attention.energy.context-score.width", "8"],
            "say context_score on",
        ),
        (["--seed", "-1"], "seed: got -1"),
        (["--accumulate", "3"], "accumulate: got 3 micro-batches of a batch of 8 rows"),
        (["--attention", "nothing"], "attention: got 'nothing', expected FILE.py:CLASS"),
        (["--attention", "missing.py:A"], "attention: got no file missing.py"),
        (["--resume"], "resume: got no folder, expected --out RUN"),
    ],
)
def test_impossible_values_stop_before_any_work(arguments, message, capsys, tmp_path, own_text):
    out = [] if arguments == ["--resume"] else ["--out", str(tmp_path / "run")]
    # A text of the test's own, where the data is not what is wrong.
    data = [] if "--data" in arguments else ["--data", str(own_text)]
    small = [] if "--tokenizer" in arguments else ["--tokenizer", "byte"]
    assert main(["train", *data, *small, *arguments, *out]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("--optimiser.learning-rat", "--optimiser.learning-rate"),
        ("--model.attention.energy.diagnal", "--model.attention.energy.diagonal"),
        ("--inner-step", "--inner-steps"),
    ],
)
def test_an_unknown_option_stops_with_the_nearest_name(wrong, nearest, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["train", wrong, "1"])
    assert exit_.value.code == 2
    assert nearest in capsys.readouterr().err


@pytest.mark.usefixtures("no_work")
def test_no_run_overwrites_another(trained, tmp_path, capsys):
    (tmp_path / "kept").write_text("precious")
    for out, message in (
        (tmp_path, "which is not empty and holds no run, expected a new folder"),
        (tmp_path / "kept", "which is a file, expected a folder"),
        (trained.path, "which holds a run, expected a new folder; add --resume"),
    ):
        assert main(["train", "--out", str(out)]) == 2
        assert message in capsys.readouterr().err
    # Not even with --resume, where there is no run.
    assert main(["train", "--out", str(tmp_path), "--resume"]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "Quadratc",
            "expected one of its energies: Quadratic, Unnamed, PerBatch, NeedsMore. Did you mean",
        ),
        ("NoEnergy", "which is no subclass of cem_jax.Energy"),
        ("NeedsMore", r"expected one that can be called as NeedsMore(dim, rngs=rngs)"),
        ("PerBatch", "expected one energy per position"),
    ],
)
def test_energies_that_cannot_work_stop_before_any_work(
    energies, name, message, tmp_path, own_text, capsys
):
    out = tmp_path / "run"
    options = ["--data", str(own_text), "--tokenizer", "byte", "--length", "4", "--out", str(out)]
    assert main(["train", "--attention", f"{energies}:{name}", *options]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_an_energy_whose_parameters_have_no_axis_names_can_be_trained(
    energies, own_text, tmp_path, capsys
):
    words = "--tokenizer byte --length 8 --batch 2 --model.dim 16 --model.layers 1 --dry-run"
    options = ["--data", str(own_text), "--attention", f"{energies}:Unnamed", *words.split()]
    assert main(["train", *options, "--out", str(tmp_path / "run")]) == 0
    assert "1 device (single)" in capsys.readouterr().out


@pytest.mark.usefixtures("no_work")
def test_a_broken_file_says_how_it_broke(tmp_path, capsys):
    (tmp_path / "broken.py").write_text("1 / 0")
    assert main(["train", "--attention", f"{tmp_path / 'broken.py'}:A"]) == 2
    assert "fails with ZeroDivisionError: division by zero" in capsys.readouterr().err


def test_the_options_choose_the_run(energies):
    best = parsed()
    assert best.name == "cem-context"
    assert best.model == TransformerConfig.tiny("cem-context", vocab_size=8192)
    assert (best.model.attention.descent.steps, best.model.mlp.descent.steps) == (1, 1)
    twice = parsed("--inner-steps", "2").model
    assert twice == TransformerConfig.tiny(
        "cem-context", Recipe(steps=2, preconditioner=None), vocab_size=8192
    )
    cem = parsed("--model", "cem", "--inner-steps", "3", "--tokenizer", "train:512")
    assert isinstance(cem.model.attention, CEMConfig)
    assert cem.model.attention.descent.steps == cem.model.mlp.descent.steps == 3
    assert cem.model.attention.energy.diagonal == "shared"
    assert cem.model.attention.descent.preconditioner is not None
    assert cem.model.vocab_size == 512
    assert isinstance(cem.training.optimiser, MuonConfig)
    llama = parsed("--model", "llama", "--preset", "small", "--optimiser", "adamw")
    assert isinstance(llama.model.attention, MHAConfig)
    assert llama.model.dim == 256
    assert isinstance(llama.training.optimiser, AdamWConfig)
    own = parsed("--model", "llama", "--attention", f"{energies}:Quadratic")
    assert own.name == "llama-Quadratic"
    assert isinstance(own.model.attention.energy, UserEnergy)
    shipped = TransformerConfig.tiny("cem").attention.descent
    assert own.model.attention.descent == dataclasses.replace(shipped, step_size=StepSizeConfig())
    assert type(own.model.mlp) is type(llama.model.mlp)
    # An energy of one's own takes the T and P of the family that its MLP is of.
    beside_the_best = parsed("--attention", f"{energies}:Quadratic").model
    expected = dataclasses.replace(best.model.attention.descent, step_size=StepSizeConfig())
    assert beside_the_best.attention.descent == expected
    assert beside_the_best.mlp == best.model.mlp
    described = json.loads(json.dumps(describe(own.model)))
    assert described["attention"]["energy"]["factory"] == "Quadratic"
    assert len(described["attention"]["energy"]["source_hash"]) == 64


def test_every_field_can_be_given():
    given = """
        --model cem --model.attention.energy.diagonal none --model.attention.energy.relative-bias 64
        --model.attention.energy.context-score on --model.attention.energy.context-score.width 8
        --model.attention.descent.preconditioner none --model.mlp.descent.preconditioner.rank 4
        --model.mlp.energy.form quadratic --model.no-tie-embeddings
        --optimiser.schedule.kind wsd --keep 5
    """
    config = parsed(*given.split())
    energy, descent = config.model.attention.energy, config.model.attention.descent
    assert (energy.diagonal, energy.relative_bias, energy.context_score.width) == ("none", 64, 8)
    assert descent.preconditioner is None
    assert config.model.mlp.descent.preconditioner.rank == 4
    assert config.model.mlp.energy.form == "quadratic"
    assert not config.model.tie_embeddings
    assert config.training.optimiser.schedule.kind == "wsd"
    assert config.training.keep == 5


def test_what_is_none_is_said_with_one_word():
    off = "--model.attention.energy.relative-bias none --model.attention.energy.context-score none"
    energy = parsed(*off.split()).model.attention.energy
    assert energy.relative_bias is None
    assert energy.context_score is None
    assert parsed("--model.attention.energy.head-dim", "8").model.attention.energy.head_dim == 8


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (NonFiniteError("loss: got nan at step 3", 3), 1, "cem train: loss: got nan at step 3"),
        (StoppedError(7), 130, "stopped after step 7, which is saved; go on with: cem train"),
        (StoppedError(7, signal.SIGTERM), 0, "stopped after step 7, which is saved"),
        (OSError(28, "No space left on device"), 1, "No space left on device; what was saved"),
    ],
)
def test_a_run_that_does_not_end_says_so(error, status, message, monkeypatch, tmp_path, capsys):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(session, "run", fail)
    assert main(["train", "--out", str(tmp_path / "run")]) == status
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("processes", "more", "line"),
    [
        (1, (), "--out 'a run'\n"),
        (1, ("--report", "valid"), "--out 'a run' --report valid\n"),
        (2, (), "--out 'a run' --processes ..., on each of them\n"),
    ],
)
def test_the_line_to_go_on_with_is_whole(processes, more, line, monkeypatch, tmp_path, capsys):
    def stop(*arguments, **options):
        raise StoppedError(7)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "run", stop)
    monkeypatch.setattr(jax, "process_count", lambda: processes)
    main(["train", "--out", "a run", *more])
    assert f"go on with: cem train --resume {line}" in capsys.readouterr().err


def test_a_run_from_text_to_figures(trained):
    for words in (
        "6 steps of 2 x 16 tokens",
        "about a minute,",
        "step 4: validation loss",
        "test bits per byte",
        "Kneser-Ney 3-gram, 330 pieces",
        "A sample",
    ):
        assert words in trained.printed
    config, summary, out = trained.config, trained.summary, trained.path
    assert config["config"]["training"]["seed"] == 3
    assert config["config"]["model"]["attention"]["descent"]["steps"] == 2
    assert set(config["hashes"]) == {"corpus", "tokenizer"}
    assert config["versions"]["jax"] == jax.__version__

    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records if "loss" in record] == [1, 2, 3, 4, 5, 6]
    assert [record["step"] for record in records if "valid_loss" in record] == [4, 6]
    assert (out / "samples.txt").read_text().startswith("=== step 4\n")
    assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in (out / "checkpoints").iterdir()} == {"4", "6"}

    assert summary["parameters"] - summary["parameters_without_embeddings"] == 330 * 16
    assert 0 < summary["train_tokens"] <= 6 * 2 * 16
    assert summary["tokens_per_second"] > 0
    # P starts as the identity; six steps at the peak rate move it a little.
    for name in ("attention", "mlp"):
        assert -0.5 < summary[f"least_eigenvalue_{name}"] < 0.999
    np.testing.assert_allclose(summary["test_perplexity"], math.exp(summary["test_loss"]))
    assert set(summary["references"]["330 pieces"]) == {"1-gram", "2-gram", "3-gram"}


def test_an_ended_run_that_is_resumed_prints_its_table(trained, capsys, monkeypatch):
    monkeypatch.setattr(session, "fit", lambda *arguments: pytest.fail("work was begun"))
    before = (trained.path / "summary.json").read_bytes()
    assert main(["train", "--resume", "--out", str(trained.path)]) == 0
    assert f"{trained.summary['test_bits_per_byte']:.4f}" in capsys.readouterr().out
    assert (trained.path / "summary.json").read_bytes() == before


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seed", "4"], "training.seed: 3 there, 4 asked"),
        (["--optimiser", "adamw"], "training.optimiser.type: 'MuonConfig' there"),
        (["--inner-steps", "1"], "model.attention.descent.steps: 2 there, 1 asked"),
        (["--model.attention.descent.norm-mode", "exact"], "norm_mode: 'default' there"),
        (["--tokenizer", "train:331"], "model.vocab_size: 330 there, 331 asked"),
    ],
)
def test_another_run_is_not_resumed(trained, options, message, capsys):
    assert main([*small_run.arguments(trained.text, trained.path), "--resume", *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("no_work")
def test_a_run_is_not_resumed_on_another_text(trained, tmp_path, capsys):
    run, text = tmp_path / "run", tmp_path / "messages.txt"
    shutil.copytree(trained.path, run)
    text.write_bytes(trained.text.read_bytes() + b" And more.")
    arguments = ["--tokenizer", str(trained.path / "tokenizer")]
    assert main([*small_run.arguments(text, run), "--resume", *arguments]) == 2
    assert "corpus: " in capsys.readouterr().err


def test_a_pipe_that_is_closed_ends_a_command_quietly(trained):
    import sys

    command = f"{sys.executable} -m cem_jax.cli.main --help | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
