import dataclasses

import jax
import numpy as np
import pytest
from flax import nnx

from cem_jax import Recipe, Transformer, TransformerConfig
from cem_jax.data import load_corpus
from cem_jax.runs import figures
from cem_jax.runs.config import DataConfig
from cem_jax.runs.estimate import expected_seconds
from cem_jax.runs.figures import speed
from cem_jax.runs.picture import Course, _positions, draw
from cem_jax.runs.references import references
from cem_jax.runs.text import Text
from cem_jax.training import TrainingConfig


def records(seconds, tokens=10.0):
    steps = enumerate(seconds, 1)
    return [{"step": n, "loss": 3.0 - n / 9, "tokens": tokens, "seconds": s} for n, s in steps]


def test_the_rate_leaves_compilation_and_pauses_out():
    # Fetched in pairs: 20 tokens in 30 s of compilation, then in 2, 2, 9 and 2 seconds.
    metrics = records([30.0, 30.0, 32.0, 32.0, 34.0, 34.0, 43.0, 43.0, 45.0, 45.0])
    metrics.insert(4, {"step": 4, "valid_loss": 2.0, "valid_tokens": 5})
    assert speed(metrics) == {"train_tokens": 100, "tokens_per_second": 10.0}
    assert speed([]) == {"train_tokens": 0, "tokens_per_second": 0.0}


def test_steps_that_were_fetched_together_are_spread_over_their_time():
    times = _positions(records([2.0, 2.0, 5.0, 5.0, 5.0]), "seconds")
    np.testing.assert_allclose(times, [1, 2, 3, 4, 5])
    np.testing.assert_allclose(_positions(records([1.0, 2.0]), "tokens"), [10, 20])


@pytest.mark.parametrize("count", [0, 1, 100])
def test_a_picture_of_any_course(tmp_path, count):
    course = records(np.linspace(1, 50, count))
    course += [{"step": count, "valid_loss": 2.5, "valid_tokens": 9}]
    picture = tmp_path / "loss.png"
    draw(picture, {"a": Course(course, 0.5), "b": Course(course, 0.6)}, {"2-gram": 1.2})
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["loss.png"]


def test_an_estimate_grows_with_the_work():
    model = TransformerConfig.tiny("cem", vocab_size=512)
    few, many = (
        expected_seconds(model, TrainingConfig(steps=steps), 0) for steps in (1, 1_000_000)
    )
    assert 0 < few < 300
    assert many > 100 * few


def test_references_are_of_the_own_vocabulary_and_of_a_larger_one_where_there_is_one(own_text):
    text = Text.prepare(DataConfig(str(own_text), "train:330"), 16)
    # So small a text cannot fill 8,192 pieces.
    found = references(text)
    assert list(found) == ["330 pieces"]
    bits = list(found["330 pieces"].values())
    assert bits == sorted(bits, reverse=True)
    assert 0 < bits[-1] < bits[0] < 8


def test_the_text_is_cut_by_its_train_split_and_keeps_every_byte(own_text):
    text = Text.prepare(DataConfig(str(own_text), "byte"), 16)
    corpus = load_corpus(str(own_text))
    assert text.hashes()["corpus"] == corpus.content_hash()
    # One predicted piece for each byte, and one for the end of each document.
    for split in ("train", "valid", "test"):
        documents = getattr(corpus, split)
        assert text.rows[split].predicted == text.utf8_bytes(split) + len(documents)


def test_eigenvalues_are_computed_in_one_program(monkeypatch):
    """Of several, two processes could begin the sends in another order, and wait for ever."""
    traced, real = [], figures.least_eigenvalues

    def seen(model):
        traced.extend(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(nnx.state(model)))
        return real(model)

    monkeypatch.setattr(figures, "least_eigenvalues", seen)
    config = TransformerConfig.tiny("cem", Recipe(), vocab_size=16)
    model = Transformer(dataclasses.replace(config, layers=1), rngs=nnx.Rngs(0))
    graph, params = nnx.split(model)
    found = figures.eigenvalues(graph, nnx.to_pure_dict(params))
    assert traced
    assert all(traced)
    assert set(found) == {"least_eigenvalue_attention", "least_eigenvalue_mlp"}
