"""A run as a file: whole or not at all, once, and refused where it says nothing."""

import dataclasses
import json

import numpy as np
import pytest

from experiments.gaussian_process import results
from experiments.gaussian_process.plan import CASES, Case, cem
from experiments.gaussian_process.train import draw_test, require_finite


@pytest.fixture
def case(prior):
    return Case(prior, 1, "cem-t2", cem(2))


def test_a_run_is_written_once_repeats_its_bits_and_learns(case, tiny, tmp_path):
    training = dataclasses.replace(tiny, steps=60, sequences=8, learning_rate=1e-2)

    def again(seed):
        path = results.run_path(case, seed, tmp_path)
        path.unlink(missing_ok=True)
        assert results.finish_run(case, seed, training, tmp_path)
        assert not results.finish_run(case, seed, training, tmp_path)
        record = json.loads(path.read_text())
        assert record.pop("processor_seconds") > 0
        return record

    first, second, other = again(0), again(0), again(1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "1d-1layer-cem-t2-s0.json",
        "1d-1layer-cem-t2-s1.json",
    ]
    assert first == second
    assert first["test_mse"] != other["test_mse"]
    assert first["trivial_mse"] == other["trivial_mse"]
    for record in (first, other):
        assert len(record["test_mse"]) == training.length
        assert [one["step"] for one in record["validation"]] == [30, 60]
        # The prior mean has an error of 1.01.
        assert record["validation"][-1]["mse"] < 0.85


def test_floors_are_written_once_and_ordered(prior, tiny, tmp_path):
    many = dataclasses.replace(tiny, test_sequences=200)
    assert results.finish_floor(prior, many, tmp_path)
    assert not results.finish_floor(prior, many, tmp_path)
    floor = results.load_floor(prior, tmp_path)
    known, bayes, trivial = (np.mean(floor[name]) for name in ("known", "bayes", "trivial"))
    assert known < bayes < trivial
    np.testing.assert_allclose(
        floor["trivial"], np.mean(draw_test(prior, many).y ** 2, axis=0), 1e-5
    )


def test_a_run_on_another_draw_than_the_floors_is_refused(tmp_path):
    results.write(tmp_path / "floor-1d.json", {"trivial": [1.0, 1.2]})
    name = "1d-1layer-mha"
    path = results.run_path(CASES[name], 3, tmp_path)
    results.write(path, {"seed": 3, "trivial_mse": 1.1})
    assert results.load_results(tmp_path)[name][3]["trivial_mse"] == 1.1
    results.write(path, {"seed": 3, "trivial_mse": 1.11})
    with pytest.raises(ValueError, match="seed 3, was tested on another draw"):
        results.load_results(tmp_path)


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "a.json"
    results.write(path, {"kept": 1})
    with pytest.raises(TypeError):
        results.write(path, {"no JSON": object()})
    assert json.loads(path.read_text()) == {"kept": 1}


def test_errors_that_say_nothing_are_refused():
    with pytest.raises(ValueError, match="the test error: got nan"):
        require_finite(float("nan"), "the test error")


def test_a_diverging_run_writes_nothing(case, tiny, tmp_path):
    wild = dataclasses.replace(tiny, learning_rate=1e20)
    with pytest.raises(ValueError, match="after step 2: got"):
        results.finish_run(case, 0, wild, tmp_path)
    assert not list(tmp_path.iterdir())


def test_steps_are_a_multiple_of_the_checks(tiny):
    with pytest.raises(ValueError, match="steps: got 5, expected a multiple of the 2 checks"):
        dataclasses.replace(tiny, steps=5)
