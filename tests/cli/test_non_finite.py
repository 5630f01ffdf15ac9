"""A batch whose loss is no number: its rows are written out, and the run stops or goes on."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_run

from cem_jax.cli.main import main
from cem_jax.data import Pipeline
from cem_jax.runs import fit
from cem_jax.runs.loading import load
from cem_jax.runs.stopping import StopSignals
from cem_jax.runs.text import Text
from cem_jax.training import finite
from cem_jax.training import step as step_module
from cem_jax.training.loss import summed_loss

SKIP = ("--non-finite", "skip")


@pytest.fixture
def pipeline(trained):
    config = load(trained.path).config
    text = Text.prepare(config.data, config.training.length, load(trained.path).tokenizer)
    return Pipeline(text.rows["train"], batch=2, seed=3)


@pytest.fixture
def poison(pipeline, monkeypatch):
    """Makes the loss of the batches of these steps, from 1, NaN, wherever they come up."""
    monkeypatch.setattr("cem_jax.runs.sampling.SAMPLE", 5)

    def poisoned(*steps):
        bad = np.stack([pipeline.batch(step - 1).inputs for step in steps])

        def loss(graph, params, batch):
            nats, tokens = summed_loss(graph, params, batch)
            hit = jnp.any(jnp.all(batch.inputs[None] == bad, axis=(1, 2)))
            return nats * jnp.where(hit, jnp.nan, 1.0), tokens

        monkeypatch.setattr(step_module, "summed_loss", loss)

    return poisoned


def run(text, out, *more, stop_after=None):
    """The exit status of a run, which a signal reaches after some steps."""

    class Asked(StopSignals):
        left = stop_after

        def __call__(self):
            self.left = None if self.left is None else self.left - 1
            return self.left == 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "stop_signals", Asked)
        return main(small_run.arguments(text, out, "--report", "valid", "--resume", *more))


def lines(path):
    """JSON alone: no NaN, no Infinity."""

    def refuse(word):
        raise AssertionError(word)

    text = path.read_text().splitlines()
    return [json.loads(line, parse_constant=refuse) for line in text]


def metrics(path):
    records = lines(path / "metrics.jsonl")
    return [{key: value for key, value in one.items() if key != "seconds"} for one in records]


@pytest.mark.slow
def test_a_run_stops_or_skips_and_its_rows_can_be_looked_at(
    own_text, pipeline, poison, tmp_path, capsys
):
    """Stopped by the batch, then by a signal after it was skipped: as one that never was."""
    poison(3)
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    assert run(own_text, straight, *SKIP) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "step 3 was skipped: loss nan, gradient_norm nan; its rows are in" in printed
    assert "steps skipped, not finite │ 1" in printed
    assert json.loads((straight / "summary.json").read_text())["skipped_steps"] == 1
    why = "loss nan, gradient_norm nan"
    tokens = int(pipeline.batch(2).mask.sum())
    assert metrics(straight)[2] == {"step": 3, "tokens": tokens, "skipped": 1, "why": why}

    assert run(own_text, stopped) == 1
    file = stopped / "non-finite" / "step-3.jsonl"
    error = capsys.readouterr().err
    assert "loss: got nan at step 3" in error
    assert f"of the training text, written to {file}." in error
    rows, tokenizer = lines(file), load(straight).tokenizer
    assert [row["row"] for row in rows] == pipeline.rows_of(2).tolist()
    for row, inputs, targets in zip(rows, *pipeline.batch(2)[:2], strict=True):
        assert row["tokens"] in (inputs.tolist(), [*inputs.tolist(), int(targets[-1])])
        assert row["text"] == tokenizer.decode(row["tokens"])

    assert run(own_text, stopped, *SKIP, stop_after=4) == 130
    assert run(own_text, stopped) == 0
    assert file.read_bytes() == (straight / "non-finite" / "step-3.jsonl").read_bytes()
    assert metrics(stopped) == metrics(straight)
    one, other = load(straight), load(stopped)
    for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(other.params), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_skipped_steps_in_a_row_are_counted_over_a_stop(
    own_text, poison, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(finite, "SKIPS", 1)
    poison(2, 3)
    out = tmp_path / "run"
    assert run(own_text, out, *SKIP, stop_after=2) == 130
    assert run(own_text, out, *SKIP) == 1
    printed = capsys.readouterr()
    assert "non_finite: got 2 steps in a row that were skipped, 2 to 3" in printed.err
    # Saved after the step that was skipped: its parameters are those that the losses were of.
    assert "the state of step 2 may be the cause: it was moved to" in printed.out
    assert {path.name for path in (out / "non-finite").iterdir()} == {
        "step-2.jsonl",
        "step-3.jsonl",
    }
