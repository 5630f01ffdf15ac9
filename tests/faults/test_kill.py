"""The fast case of `kill.py`: one kill, in a save if it hits, and the same end."""

import kill
import pytest


@pytest.mark.slow
def test_a_run_that_was_killed_ends_bit_equal(tmp_path, monkeypatch):
    monkeypatch.setattr(kill, "STEPS", 30)
    # Some kills may come too late for so short a run; the comparison holds either way.
    kill.trial(tmp_path, kills=1, seed=2)
