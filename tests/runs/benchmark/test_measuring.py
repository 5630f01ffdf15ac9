"""From jobs to a record, and what Ctrl-C leaves."""

import dataclasses
import time

import jax
import jax.numpy as jnp
import pytest

from cem_jax.runs.benchmark import session
from cem_jax.runs.benchmark.compiled import compilations, temporary_bytes
from cem_jax.runs.benchmark.measuring import Job, measure
from cem_jax.runs.benchmark.record import read
from cem_jax.runs.benchmark.session import INTERRUPTED, Plan, carry_out
from cem_jax.runs.benchmark.timing import Side


def idle():
    pass


def job(name, *sides, **options):
    sides = sides or (Side("a", idle, {"flops": 3}), Side("b", idle))
    return Job(name, sides[0].name, lambda: sides, **options)


def interrupting(after):
    """A side that runs once a round, and is interrupted when it has run so often."""
    runs = 0

    def run():
        nonlocal runs
        runs += 1
        time.sleep(0.06)
        if runs > after:
            raise KeyboardInterrupt

    return Side("b", run)


@pytest.fixture
def empty(record):
    return dataclasses.replace(record, complete=False, groups=())


def quick(record, jobs, rounds, **options):
    return measure(record, jobs, rounds, at_least=0.0, **options)


def test_all_groups_with_their_rounds_and_figures(empty):
    told, saved = [], []
    jobs = [job("one"), job("two", rounds=5), job("untimed", Side("x", None, {"bytes": 7}))]
    found = quick(empty, jobs, 3, tell=lambda *a: told.append(a), save=saved.append)
    assert found.complete
    assert [group.name for group in found.groups] == ["one", "two", "untimed"]
    assert [[len(s.seconds) for s in g.sides] for g in found.groups] == [[3, 3], [5, 5], [0]]
    assert found.groups[0].sides[0].figures == {"flops": 3}
    assert found.groups[2].sides[0].figures == {"bytes": 7}
    assert told[:4] == [("one", 0), ("one", 1), ("one", 2), ("one", 3)]
    assert [len(record.groups) for record in saved] == [1, 2, 3, 3]
    assert saved[-1] == found


def test_an_interruption_keeps_whole_rounds(empty):
    # Two runs of the warm-up, two rounds, and no more.
    cut = job("cut", Side("a", idle), interrupting(4))
    found = quick(empty, [job("one"), cut, job("never")], 6)
    assert not found.complete
    assert [group.name for group in found.groups] == ["one", "cut"]
    assert [len(side.seconds) for side in found.groups[1].sides] == [2, 2]


def test_an_interrupted_warm_up_leaves_no_group(empty):
    found = quick(empty, [job("cut", Side("a", idle), interrupting(1))], 6)
    assert found == empty


def test_an_error_is_raised_and_the_groups_before_it_are_saved(empty):
    def broken():
        raise ValueError("no memory")

    saved = []
    with pytest.raises(ValueError, match="no memory"):
        quick(empty, [job("one"), Job("two", "a", broken)], 2, save=saved.append)
    assert [group.name for group in saved[-1].groups] == ["one"]


def test_a_plan_is_carried_out_to_its_files(tmp_path, capsys):
    plan = Plan("word", "A title", {"batch": 2}, [job("one")])
    assert carry_out(plan, 2, "cem bench", tmp_path / "new", "label") == 0
    path = tmp_path / "new" / "word-label.json"
    record = read(path)
    assert (record.measurement, record.command, record.complete) == ("word", "cem bench", True)
    assert record.versions["jax"]
    assert record.machine["processor"]
    assert record.machine["cpus"] >= 1
    said = capsys.readouterr().out
    assert "A title" in said
    assert "word-label.md" in said


def test_an_interrupted_plan_ends_with_130_and_keeps_what_is_whole(tmp_path, capsys):
    plan = Plan("word", "A title", {}, [job("one"), job("cut", Side("a", idle), interrupting(4))])
    assert carry_out(plan, 9, "cem bench", tmp_path) == INTERRUPTED
    assert len(read(tmp_path / "word.json").groups) == 2
    assert "Interrupted: 2 of 2 groups" in capsys.readouterr().out


def test_without_a_folder_nothing_is_written(monkeypatch):
    monkeypatch.setattr(session, "write", lambda *a: pytest.fail("written"))
    assert carry_out(Plan("word", "A title", {}, [job("one")]), 1, "cem bench") == 0


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"out: got .*cannot be made"):
        carry_out(Plan("word", "A title", {}, []), 1, "cem bench", tmp_path / "file" / "out")


def test_compilations_are_counted_once_each():
    x = jnp.ones((3, 5))
    double = jax.jit(lambda x: 2 * x)
    with compilations() as first:
        double(x)
    with compilations() as second:
        double(x)
    assert (first.value, second.value) == (1, 0)
    double(x[:2])
    assert first.value == 1, "listens no longer"


def test_temporary_bytes_are_those_of_the_program():
    def bytes_of(size):
        x = jax.ShapeDtypeStruct((size, size), jnp.float32)
        return temporary_bytes(jax.jit(lambda x: (x @ x) @ x).lower(x).compile())

    assert bytes_of(256) >= 4 * 256**2
    assert bytes_of(512) >= 3 * bytes_of(256)
