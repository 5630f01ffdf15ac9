"""Processes that do not end say where they stand, and are not left behind."""

import sys

import pytest
from several import Several

WAITS = """
import sys, time
def waits_for_ever():
    time.sleep(60)
print("x" * 200_000, flush=True)
if sys.argv[2].startswith("1"):
    waits_for_ever()
"""


def test_those_that_end_say_all_whatever_the_order():
    statuses, said = Several(1, [sys.executable, "-c", WAITS]).ended()
    assert statuses == [0]
    assert said[0][0] == "x" * 200_000 + "\n"


def test_one_that_goes_on_is_ended_and_says_where_it_was():
    two = Several(2, [sys.executable, "-c", WAITS])
    with pytest.raises(AssertionError, match=r"1 of 2 went on after 3 s.*in waits_for_ever"):
        two.ended(3)
    assert all(process.returncode is not None for process in two.processes)
