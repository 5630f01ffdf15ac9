"""A trace of some steps, read again."""

import re
import warnings

import jax
import jax.numpy as jnp
import pytest

from cem_jax.cli.main import main
from cem_jax.data import pack
from cem_jax.runs.profiling import Profiler, Window


@pytest.mark.parametrize("given", ["", "5", "5:", ":5", "a:b", "1:2:3", "-1:3", "1.5:3", "5-9"])
def test_what_is_no_range_is_refused(given):
    with pytest.raises(ValueError, match=r"profile: got .*expected FIRST:LAST"):
        Window.parse(given, 100)


@pytest.mark.parametrize("given", ["0:3", "7:6", "95:101"])
def test_a_range_without_steps_of_the_run_is_refused(given):
    with pytest.raises(
        ValueError, match=f"profile: got {given}, expected 1 <= FIRST <= LAST <= 100"
    ):
        Window.parse(given, 100)


def test_the_command_refuses_it_before_any_work(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", "--profile", "9:5", "--out", str(out)]) == 2
    assert "cem train: profile: got 9:5, expected" in capsys.readouterr().err
    assert not out.exists()


def traced(folder):
    """The numbers of the steps in the trace."""
    (file,) = folder.rglob("*.xplane.pb")
    with warnings.catch_warnings():
        # Of JAX's own types in 0.12, and in C++, where an error would be the end.
        warnings.filterwarnings("ignore", "builtin type .* has no __module__", DeprecationWarning)
        data = jax.profiler.ProfileData.from_file(str(file))
        events = [event for plane in data.planes for line in plane.lines for event in line.events]
        numbers = [dict(event.stats).get("step_num") for event in events if event.name == "train"]
    return sorted(int(number) for number in numbers)


def count(state, batch):
    return {"step": state["step"] + 1}, {}


def drive(profiler, steps, begin=0):
    state, batch = {"step": jnp.int32(begin)}, pack([[1, 2, 3]], 2).batch([0])
    step = profiler.of(jax.jit(count), begin)
    for _ in range(begin, steps):
        state, _ = step(state, batch)
    return int(state["step"])


def test_the_steps_of_the_window_are_in_the_trace(tmp_path):
    said = []
    with Profiler(tmp_path / "profile", Window(3, 5), said.append) as profiler:
        assert drive(profiler, 8) == 8
        # It ends with the window, not with the run.
        assert len(said) == 1
    assert traced(tmp_path / "profile") == [3, 4, 5]
    assert len(said) == 1
    assert re.match("profile: written to .*profile; ", said[0])


def test_a_run_that_goes_on_within_the_window_has_the_rest_of_it(tmp_path):
    with Profiler(tmp_path / "profile", Window(3, 5), print) as profiler:
        drive(profiler, 8, begin=4)
    assert traced(tmp_path / "profile") == [5]


def test_a_run_that_ends_within_the_window_keeps_what_there_is(tmp_path):
    with Profiler(tmp_path / "profile", Window(3, 50), print) as profiler:
        drive(profiler, 4)
    assert traced(tmp_path / "profile") == [3, 4]


def test_a_window_that_is_behind_is_said_to_be(tmp_path):
    said = []
    with Profiler(tmp_path / "profile", Window(3, 5), said.append) as profiler:
        drive(profiler, 8, begin=5)
    assert "behind this run" in said[0]
    with Profiler(tmp_path / "profile", None, pytest.fail) as profiler:
        drive(profiler, 8)
    assert not (tmp_path / "profile").exists()
