"""Kill a short run again and again, resume it, and compare with one that was never killed.

    python tests/faults/kill.py [KILLS] [SEED]

Each time a fresh process goes on with `cem train --resume`; it is killed with SIGKILL at a random
moment, now while it starts, now in a step, a save or a deletion. At the end the parameters and the
metrics must be bit-equal to those of the uninterrupted run. Ten kills take some minutes.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import small_run

from cem_jax.runs.loading import load

STEPS = 300


def command(text: Path, out: Path) -> list[str]:
    """A run of many short steps that saves every two, and keeps little."""
    often = f"--steps {STEPS} --record-every 1 --save-every 2 --evaluate-every 50 --keep 1 --resume"
    line = small_run.arguments(text, out, *often.split())
    return [sys.executable, "-m", "cem_jax.cli.main", *line]


def finish(text: Path, out: Path) -> None:
    """Run to the end."""
    subprocess.run(command(text, out), check=True, capture_output=True)


def killed(text: Path, out: Path, seconds: float, *, training: bool) -> bool:
    """Start, and kill after so many seconds; False if the run had ended before.

    Args:
        text: of the run.
        out: its folder.
        seconds: from the start of the process, or, with ``training``, from its first step.
        training: whether to wait for a step.
    """
    least = len(records_on_disk(out))
    process = subprocess.Popen(command(text, out), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while training and process.poll() is None:
        # A run that resumes first cuts its metrics back to its state; then lines are added.
        lines = len(records_on_disk(out))
        if lines > least:
            break
        least = lines
        time.sleep(0.01)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def assert_equal(one: Path, other: Path) -> None:
    """Parameters, losses and figures, to the last bit."""
    a, b = load(one), load(other)
    assert a.step == b.step == STEPS, (a.step, b.step)
    for x, y in zip(jax.tree.leaves(a.params), jax.tree.leaves(b.params), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
    assert records(one) == records(other)
    figures = [json.loads((path / "summary.json").read_text()) for path in (one, other)]
    for name in ("test_loss", "valid_loss", "train_tokens", "sample"):
        assert figures[0][name] == figures[1][name], name
    samples = [(path / "samples.txt").read_bytes() for path in (one, other)]
    assert samples[0] == samples[1]


def records(path: Path) -> list[dict]:
    """The metrics, without the clock."""
    lines = map(json.loads, (path / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def trial(folder: Path, kills: int, seed: int) -> int:
    """Kill so many times at random, then finish and compare; how many hit a living run."""
    draw, text = random.Random(seed), small_run.write_text(folder / "text.txt")
    hits = 0
    for number in range(kills):
        # Two of three in a step, a save or a deletion, the rest while it starts or restores.
        training = number % 3 != 2
        seconds = draw.uniform(0, 2 if training else 8)
        hits += killed(text, folder / "killed", seconds, training=training)
        lines = len(records_on_disk(folder / "killed"))
        print(f"kill {number + 1}: after {seconds:.2f} s, {lines} lines of metrics", flush=True)
    finish(text, folder / "killed")
    finish(text, folder / "straight")
    assert_equal(folder / "straight", folder / "killed")
    return hits


def records_on_disk(path: Path) -> list[bytes]:
    """Lines that are there now, whole or not."""
    file = path / "metrics.jsonl"
    return file.read_bytes().splitlines() if file.is_file() else []


if __name__ == "__main__":
    kills, seed = (int(word) for word in [*sys.argv[1:], "10", "0"][:2])
    with tempfile.TemporaryDirectory() as folder:
        print(f"{trial(Path(folder), kills, seed)} of {kills} kills hit; all is bit-equal")
