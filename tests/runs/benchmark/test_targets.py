"""What the records say to the targets, and the page that shows it."""

import dataclasses

import pytest
from page import RESULTS, main, page
from targets import (
    TARGETS,
    Figure,
    compiled_again,
    further_arrays,
    growth,
    share_of_naive,
)

from cem_jax.runs.benchmark.record import Group, Measured, write


def target(number, measurement):
    return next(t for t in TARGETS if (t.number, t.measurement) == (number, measurement))


def untimed(record, measurement, *groups):
    built = tuple(
        Group(name, next(iter(sides)), tuple(Measured(n, (), f) for n, f in sides.items()))
        for name, sides in groups
    )
    return dataclasses.replace(record, measurement=measurement, groups=built)


def lengths(record, blockwise):
    """Plain is quadratic; the other takes so many bytes at 1, 2 and 16 k."""
    return untimed(
        record,
        "memory_length",
        *(
            (
                f"diagonal none, L = {length}",
                {
                    "plain": {"length": length, "temporary_bytes": length**2},
                    "reference": {"length": length, "temporary_bytes": length**2},
                    "blockwise": {"length": length, "temporary_bytes": used},
                },
            )
            for length, used in zip((1024, 2048, 16384), blockwise, strict=True)
        ),
    )


def test_every_row_has_a_target():
    assert {target.number for target in TARGETS} == {str(number) for number in range(1, 12)}


def test_a_bound_is_kept_from_its_own_side():
    below, above = target("5", "huggingface"), target("4", "machine_rate")
    assert [below.met(Figure("", value)) for value in (0.64, 0.65, 0.66)] == [True, True, False]
    assert [above.met(Figure("", value)) for value in (0.59, 0.6, 0.61)] == [False, True, True]
    figures = [Figure("a", 1.0), Figure("b", 3.0), Figure("c", 2.0)]
    assert (below.worst(figures).label, above.worst(figures).label) == ("b", "a")
    assert (below.bound(), above.bound()) == ("<= 0.65", ">= 0.6")
    assert target("9", "compiling").bound() == "none"


def test_figures_are_medians_of_all_but_the_baseline(record):
    assert target("3", "diagonal").figures(record) == [Figure("work, slow", 1.0)]


def test_only_the_cem_is_held_against_llama(record):
    cem, hand = (
        dataclasses.replace(record.groups[0].sides[1], name=n) for n in ("cem-2", "hand-2")
    )
    sides = (record.groups[0].sides[0], cem, hand)
    record = dataclasses.replace(record, groups=(Group("step", "base", sides),))
    assert target("2", "cem_over_llama").figures(record) == [Figure("step, cem-2", 1.0)]


def test_growth_is_for_sixteen_times_the_length(record):
    linear = lengths(record, (1e3, 2e3, 16e3))
    assert growth(linear) == [Figure("blockwise, diagonal none", 16.0)]
    worse = lengths(record, (1e3, 2e3, 32e3))
    assert growth(worse) == [Figure("blockwise, diagonal none", 32.0)]
    assert share_of_naive(worse) == [Figure("diagonal none, L = 16384, blockwise", 32e3 / 16384**2)]


def test_a_further_step_is_the_dearest_one(record):
    arrays = {1: 10.0, 2: 12.0, 4: 13.0}
    sides = {f"T = {t}": {"steps": t, "arrays": a, "temporary_bytes": 1} for t, a in arrays.items()}
    assert further_arrays(untimed(record, "memory_steps", ("mlp", sides))) == [Figure("mlp", 2.0)]


def test_only_further_calls_are_asked_whether_they_compile(record):
    sides = {"fresh": {"compilations": 0}, "restored": {"compilations": 2}}
    found = compiled_again(untimed(record, "compiling", ("calls", sides), ("time", {"4": {}})))
    assert found == [Figure("calls, fresh", 0), Figure("calls, restored", 2)]


@pytest.fixture
def shown(record, tmp_path):
    """The rows of targets and the rest, of a folder with these records."""

    def show(**records):
        for name, one in records.items():
            write(one, tmp_path / f"{name}.json")
        text = page(tmp_path)
        rows = [
            line for line in text.splitlines() if line.startswith("| ") and "| diag" not in line
        ]
        return text, next(row for row in rows if row.startswith("| 3 |"))

    return show


def test_what_is_not_measured_is_said_with_its_command(shown):
    text, row = shown()
    assert "| not measured yet |  | `python benchmarks/diagonal.py` |" in row
    assert text.count("not measured yet") == len(TARGETS)
    assert "`cem bench --name cem_over_llama --out benchmarks/results`" in text


def test_what_keeps_its_bound_is_met(shown, record):
    text, row = shown(diagonal=record)
    assert row.endswith("| <= 1.15 | 1 | met | [diagonal](#diagonal) |")
    assert "## diagonal" in text
    assert "P (2 cores, 16 GiB, device cpu, load 0.1 before)" in text
    assert "Missed" not in text


def test_what_misses_its_bound_is_shown_as_missed(shown, record):
    slow = dataclasses.replace(record.groups[0].sides[1], seconds=(4.0, 8.0, 4.0))
    record = dataclasses.replace(
        record, groups=(Group("work", "base", (record.groups[0].sides[0], slow)),)
    )
    text, row = shown(diagonal=record)
    assert row.endswith("| <= 1.15 | 2 | **missed** | [diagonal](#diagonal) |")
    assert "**Missed** (attention with a shared diagonal" in text
    assert "work, slow: 2." in text


def test_an_interrupted_measurement_meets_nothing(shown, record):
    text, row = shown(diagonal=dataclasses.replace(record, complete=False))
    assert "| met |" not in row
    assert "not all of it was measured" in row
    assert "Interrupted" in text


def test_each_picture_stands_with_its_own_record(shown, record, tmp_path):
    for name in ("diagonal", "diagonal-flops", "diagonal-gpu"):
        (tmp_path / f"{name}.png").write_bytes(b"")
    text, _ = shown(diagonal=record, **{"diagonal-gpu": record})
    first, second = text.split("## diagonal-gpu")
    assert "(diagonal.png)" in first
    assert "(diagonal-flops.png)" in first
    assert "(diagonal-gpu.png)" not in first
    assert "(diagonal-gpu.png)" in second


def test_the_page_is_written_and_checked(record, tmp_path, capsys):
    write(record, tmp_path / "diagonal.json")
    assert main(["--folder", str(tmp_path), "--check"]) == 1
    assert main(["--folder", str(tmp_path)]) == 0
    assert main(["--folder", str(tmp_path), "--check"]) == 0
    assert (tmp_path / "README.md").read_text() == page(tmp_path)
    (tmp_path / "bad.json").write_text("{}")
    assert main(["--folder", str(tmp_path)]) == 2
    assert "bad.json" in capsys.readouterr().err


def test_the_page_of_the_clone_is_that_of_its_files():
    assert (RESULTS / "README.md").read_text(encoding="utf-8") == page(RESULTS)
