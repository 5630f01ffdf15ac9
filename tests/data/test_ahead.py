"""Values that are made ahead are those of the function, and no thread is left behind."""

import contextlib
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import cem_jax
from cem_jax.data.ahead import ReadAhead


@pytest.fixture
def left():
    """Who is still there of the threads that were started in the test."""
    before = set(threading.enumerate())
    return lambda: set(threading.enumerate()) - before


def squares(made, slow=0.0):
    def square(step):
        time.sleep(slow)
        made.append((step, threading.current_thread().name))
        return step * step

    return square


@pytest.mark.parametrize("ahead", [0, 1, 2, 7])
@pytest.mark.parametrize("asked", [range(9), range(5, 9), [0, 1, 5, 6, 2, 2, 8, 40, 41]], ids=str)
def test_values_are_those_of_the_function(ahead, asked):
    with ReadAhead(squares([]), end=9, ahead=ahead) as read:
        assert [read(step) for step in asked] == [step * step for step in asked]


def test_so_many_are_made_ahead_and_none_beyond_the_end():
    made = []
    with ReadAhead(squares(made), end=5, ahead=2) as read:
        read(1)
        deadline = time.monotonic() + 10
        while len(made) < 3 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert [step for step, _ in made] == [1, 2, 3]
        for step in (2, 3, 4):
            read(step)
    assert [step for step, _ in made] == [1, 2, 3, 4]
    assert {name for _, name in made} == {"batches_0"}


def test_making_overlaps_with_what_the_caller_does():
    with ReadAhead(squares([], slow=0.2), end=3) as read:
        read(0)
        time.sleep(0.5)
        start = time.monotonic()
        assert read(1) == 1
        assert time.monotonic() - start < 0.15


def broken(step):
    if step == 3:
        raise ValueError(f"data: no row of step {step}.")
    return step


def test_an_error_is_raised_to_who_asks_for_its_step(left):
    with ReadAhead(broken, end=9) as read:
        assert [read(step) for step in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match=r"^data: no row of step 3\.$"):
            read(3)
        assert read(4) == 4
    assert not left()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError, None])
def test_no_thread_is_left_when_the_loop_stops_early(kind, left):
    made = []
    expected = contextlib.nullcontext() if kind is None else pytest.raises(kind)
    with expected, ReadAhead(squares(made, slow=0.05), end=1000, ahead=100) as read:
        read(0)
        if kind is not None:
            raise kind
    assert not left()
    assert len(made) < 10, "what was not begun is dropped"


ABANDONED = """
import sys, time
sys.path.insert(0, {root!r})
from cem_jax.data.ahead import ReadAhead
read = ReadAhead(lambda step: time.sleep(0.1), end=50)
read(0)
raise KeyboardInterrupt
"""


def test_a_process_ends_even_without_the_block():
    program = ABANDONED.format(root=str(Path(cem_jax.__file__).parents[1]))
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert b"KeyboardInterrupt" in ended.stderr
    assert ended.returncode != 0
