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


BEHIND = """
import sys, time, pathlib
flag = pathlib.Path(sys.argv[1])
if sys.argv[3].startswith("1"):
    print("x" * 200_000, flush=True)
    flag.touch()
while not flag.exists():
    time.sleep(0.01)
"""


def test_one_that_waits_for_another_whose_pipe_is_full_ends(tmp_path):
    line = [sys.executable, "-c", BEHIND, tmp_path / "flag"]
    statuses, said = Several(2, line).ended(30)
    assert statuses == [0, 0]
    assert [len(printed) for printed, _ in said] == [0, 200_001]


def test_one_that_goes_on_is_ended_and_says_where_it_was():
    two = Several(2, [sys.executable, "-c", WAITS])
    with pytest.raises(AssertionError, match=r"1 of 2 went on after 10 s.*in waits_for_ever"):
        two.ended(10)
    assert all(process.returncode is not None for process in two.processes)


def test_what_never_holds_is_not_waited_for():
    one = Several(1, [sys.executable, "-c", BEHIND, "/no/such/flag"])
    with pytest.raises(AssertionError, match="1 of 1 went on after 0 s"):
        one.until(lambda: False, 2)
    assert one.processes[0].returncode is not None


def test_what_holds_and_an_end_are_seen_at_once(tmp_path):
    one = Several(1, [sys.executable, "-c", BEHIND, tmp_path / "flag"])
    one.until(lambda: True, 0)
    (tmp_path / "flag").touch()
    assert one.ended(30)[0] == [0]
    two = Several(2, [sys.executable, "-c", "pass"])
    two.until(lambda: False, 30)
    assert two.ended(30)[0] == [0, 0]
