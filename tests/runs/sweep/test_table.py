"""What a sweep shows: cells of the table, points of the courses, and what programs read."""

import json

import numpy as np

from cem_jax.runs.sweep.picture import draw_sweep, sweep_figure, validation_course
from cem_jax.runs.sweep.results import Result, by_variant, write_results
from cem_jax.runs.sweep.table import sweep_table


def result(variant, seed, valid, **more):
    summary = {"valid_bits_per_byte": valid, "valid_loss": 2 * valid, "sample": "x", **more}
    records = [{"step": n, "loss": 9.0, "tokens": 10 * n} for n in (1, 2, 3)]
    return Result(variant, seed, summary, [*records, {"step": 3, "valid_loss": 2 * valid + 1}])


FOUND = [
    result("a", 0, 1.0, parameters_without_embeddings=1234),
    result("a", 1, 2.0, parameters_without_embeddings=1234),
    result("b", 0, 1.5, test_bits_per_byte=3.0),
    result("b", 1, 2.1),
]


def cells(table):
    return {column.header: list(column.cells) for column in table.columns}


def test_a_row_has_its_spread_and_the_paired_difference_from_the_baseline():
    table = sweep_table(FOUND, "a")
    found = cells(table)
    assert found["variant"] == ["a", "b"]
    assert found["seeds"] == ["2", "2"]
    assert found["valid bits per byte"] == ["1.5000 ± 0.7071", "1.8000 ± 0.4243"]
    assert found["parameters without embeddings"] == ["1,234", "-"]
    # Both measures have a column of differences: of the first, 0.5 and 0.1.
    first, second = (list(c.cells) for c in table.columns if c.header == "difference [95 %]")
    assert first == ["", "+0.3000 [-2.2412, +2.8412]"]
    assert second == ["", "-"]
    assert found["test bits per byte"] == ["-", "3.0000"]
    assert "test bits per byte" not in cells(sweep_table(FOUND[:2], "a"))


def test_a_course_is_in_bits_per_byte_against_all_tokens_so_far():
    where, value = validation_course(FOUND[2])
    np.testing.assert_allclose(where, [60.0])
    np.testing.assert_allclose(value, [0.5 * 4.0])


def test_figures_are_by_variant_and_seed_and_samples_are_left_out(tmp_path):
    assert by_variant(FOUND) == {"a": {0: 1.0, 1: 2.0}, "b": {0: 1.5, 1: 2.1}}
    assert by_variant(FOUND, "test_bits_per_byte") == {"b": {0: 3.0}}
    write_results(tmp_path, FOUND, "a")
    written = json.loads((tmp_path / "sweep.json").read_text())
    assert written["baseline"] == "a"
    assert [(run["variant"], run["seed"]) for run in written["runs"]] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
        ("b", 1),
    ]
    assert all("sample" not in run for run in written["runs"])


def test_the_picture_is_drawn_of_unequal_courses_and_of_one_variant_too(tmp_path):
    short = result("b", 2, 1.7)
    short.records.pop()
    for found in ([*FOUND, short], FOUND[:1]):
        path = tmp_path / "sweep.png"
        draw_sweep(path, found, "a")
        assert path.read_bytes().startswith(b"\x89PNG")
        path.unlink()


def test_the_courses_have_numbers_on_their_axis_and_no_fall_from_chance():
    """Two labelled values at least, and what lies between the variants fills the height."""
    found = [result("a", 0, 1.5), result("b", 0, 1.4)]
    for each, last in zip(found, (1.5, 1.4), strict=True):
        each.records[:] = [{"step": n, "loss": 9.0, "tokens": 10 * n} for n in (1, 2, 3)]
        losses = {1: 9.0, 2: 1.7, 3: last}
        each.records.extend({"step": n, "valid_loss": 2 * loss} for n, loss in losses.items())
    axis = sweep_figure(found, "a").axes[0]
    low, high = axis.get_ylim()
    assert low < 1.4
    assert 1.7 < high < 2.0
    assert sum(low <= tick <= high for tick in axis.get_yticks()) >= 2
