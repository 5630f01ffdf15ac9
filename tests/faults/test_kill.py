"""The fast case of `kill.py`: one kill in the middle of training, and the same end."""

import signal
import subprocess
import time

import kill
import pytest
import small_run


@pytest.mark.slow
def test_a_run_that_was_killed_ends_bit_equal(tmp_path, monkeypatch):
    monkeypatch.setattr(kill, "STEPS", 100)
    assert kill.trial(tmp_path, kills=1, seed=2) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_saves_and_stops(number, status, tmp_path):
    """A real one, to a real process: the handler is in place while it trains."""
    text, out = small_run.write_text(tmp_path / "text.txt"), tmp_path / "run"
    # Nothing but the signal makes it save so early.
    line = [*kill.command(text, out), "--save-every", "100000", "--evaluate-every", "100000"]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not kill.records_on_disk(out):
        time.sleep(0.01)
    process.send_signal(number)
    error = process.communicate()[1]
    assert process.returncode == status, error
    assert "which is saved; go on with: cem train --resume" in error
    (saved,) = (int(path.name) for path in (out / "checkpoints").iterdir())
    assert saved == len(kill.records_on_disk(out)) < kill.STEPS
