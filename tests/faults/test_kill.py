"""The fast case of `kill.py`: one kill in the middle of training, and the same end."""

import kill
import pytest


@pytest.mark.slow
def test_a_run_that_was_killed_ends_bit_equal(tmp_path, monkeypatch):
    monkeypatch.setattr(kill, "STEPS", 100)
    assert kill.trial(tmp_path, kills=1, seed=2) == 1
