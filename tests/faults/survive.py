"""What may befall a run between its start and its end, one fault after the other.

    python tests/faults/survive.py [FAULT ...]

Each fault strikes copies of one short run, as real as it can be made: signals to real processes, a
disk that is full, files cut, changed and moved. A line says what came of each. What ends a run is
followed by its resumption, and the end must be that of the run which nothing befell, to the last
bit. `kill.py` beside this has the hundred kills.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import kill
from several import Several

from cem_jax.runs.loading import load

STEPS = 60


class Case:
    """A place for copies, the text, and the runs that nothing befell.

    Args:
        folder: empty.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = kill.small_run.write_text(folder / "text.txt")
        self.straight = folder / "straight"
        done = self.cem(self.straight)
        assert done.returncode == 0, done.stderr
        self.copies = 0

    def line(self, out: Path, *more: str) -> list[str]:
        """Of a run that saves often."""
        often = f"--steps {STEPS} --record-every 1 --save-every 5 --evaluate-every 20 --keep 3"
        words = kill.small_run.arguments(self.text, out, *often.split(), "--resume", *more)
        return [sys.executable, "-m", "cem_jax.cli.main", *words]

    def cem(self, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(self.line(out, *more), capture_output=True, text=True)

    def copy(self, *, ended: bool = False) -> Path:
        """The straight run, as if it had been killed after its last state unless it has ended."""
        self.copies += 1
        path = self.folder / f"copy-{self.copies}"
        shutil.copytree(self.straight, path)
        if not ended:
            (path / "summary.json").unlink()
        return path

    def states(self, path: Path) -> list[int]:
        """The steps that are saved."""
        return sorted(int(p.name) for p in (path / "checkpoints").iterdir() if p.name.isdigit())

    def goes_on(self, path: Path, *said: str) -> None:
        """It resumes, says so, and ends as the straight run."""
        done = self.cem(path)
        assert done.returncode == 0, done.stderr
        for words in said:
            assert words in done.stdout, (words, done.stdout)
        kill.STEPS = STEPS
        kill.assert_equal(self.straight, path)


def truncated(case: Case) -> str:
    """The largest file of the newest state is cut in half."""
    path = case.copy()
    file = largest(path / f"checkpoints/{STEPS}")
    os.truncate(file, file.stat().st_size // 2)
    case.goes_on(path, f"step {STEPS} cannot be read", "going on from the state of step 55")
    return "said, set aside, the state before it taken; bit-equal end"


def flipped(case: Case) -> str:
    """A byte in the middle of the largest file of the newest state is another."""
    path = case.copy()
    file = largest(path / f"checkpoints/{STEPS}")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x10
    file.write_bytes(data)
    case.goes_on(path, f"step {STEPS} cannot be read", "going on from the state of step 55")
    return "said, set aside, the state before it taken; bit-equal end"


def half_deleted(case: Case) -> str:
    """The newest state lost half of its files."""
    path = case.copy()
    files = sorted(p for p in (path / f"checkpoints/{STEPS}").rglob("*") if p.is_file())
    for file in files[::2]:
        file.unlink()
    case.goes_on(path, "going on from the state of step 55")
    return "the state before it taken; bit-equal end"


def all_damaged(case: Case) -> str:
    """No state can be read."""
    path = case.copy()
    for step in case.states(path):
        file = largest(path / f"checkpoints/{step}")
        os.truncate(file, 10)
    done = case.cem(path)
    assert done.returncode == 2
    assert "none of which can be read" in done.stderr
    assert len(case.states(path)) == 3
    return "refused, each state and its damage named; nothing is moved"


def elsewhere(case: Case) -> str:
    """The run's folder is copied, and the first one is gone."""
    path = case.copy()
    shutil.rmtree(path / f"checkpoints/{STEPS}")
    moved = case.folder / "elsewhere" / "run"
    moved.parent.mkdir()
    path.rename(moved)
    case.goes_on(moved, "going on from the state of step 55")
    return "goes on there; bit-equal end"


def disk_full(case: Case) -> str:
    """The file system of the run is full at a save; then there is room again."""
    disk = case.folder / "disk"
    disk.mkdir()
    # Room for the files of the run and two states, and the third is one too many.
    state, rest = used(case.straight / f"checkpoints/{STEPS}"), used(case.straight / "tokenizer")
    size = f"size={rest + 5 * state // 2}"
    mount = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        return "SKIPPED: no file system may be mounted here"
    try:
        out = disk / "run"
        done = case.cem(out)
        assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
        assert "no space left" in done.stderr.lower(), done.stderr
        saved = case.states(out)
        assert saved, "no state fitted"
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        case.goes_on(out)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
    return f"status 1, said; states {saved} whole; with room again a bit-equal end"


def another_config(case: Case) -> str:
    """The same folder is asked for with another batch."""
    path = case.copy()
    done = case.cem(path, "--batch", "4")
    assert done.returncode == 2
    assert "training.batch: 2 there, 4 asked" in done.stderr
    return "refused before any work: training.batch: 2 there, 4 asked"


def more_steps(case: Case) -> str:
    """The same folder is asked for with more steps."""
    path = case.copy(ended=True)
    done = case.cem(path, "--steps", str(2 * STEPS))
    assert done.returncode == 2
    assert "follows wsd over 60 steps" in done.stderr
    return "refused, the schedule stated, and how to train on from the weights"


def another_mesh(case: Case) -> str:
    """The run goes on with two devices, by rows and by positions."""
    path = case.copy()
    for step in (55, 60):
        shutil.rmtree(path / f"checkpoints/{step}")
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "2"}
    line = case.line(path, "--mesh", "context=2")
    done = subprocess.run(line, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    worst = apart(case.straight, path)
    assert worst < 2e-5, worst
    return f"goes on from step 50; losses within {worst:.1e} of one device's"


def signal_to_one_of_two(case: Case) -> str:
    """Two processes; SIGTERM to the second, then again from where they are."""
    path, stopped = case.folder / "two", []
    long = ("--mesh", "fsdp", "--steps", "4000", "--save-every", "4000", "--evaluate-every", "4000")
    for start in range(2):
        began = len(kill.records_on_disk(path))
        two = Several(2, case.line(path, *long))
        enough = began + 2 * start
        two.until(lambda enough=enough: len(kill.records_on_disk(path)) > enough)
        assert two.processes[0].poll() is None, two.ended()
        clock = time.monotonic()
        two.processes[1].send_signal(signal.SIGTERM)
        statuses, said = two.ended(120)
        assert statuses == [0, 0], said
        stopped.append((load(path).step, time.monotonic() - clock))
    steps = ", ".join(f"step {step} in {seconds:.1f} s" for step, seconds in stopped)
    assert stopped[1][0] > stopped[0][0] > 0
    return f"both save and exit 0 after the same step: {steps}"


def kill_one_of_two(case: Case) -> str:
    """Two processes; kill -9 to one, then both again to the end, beside two that nothing befell."""
    killed, whole = case.folder / "killed-of-two", case.folder / "whole-of-two"
    line = ("--mesh", "fsdp")
    two = Several(2, case.line(killed, *line))
    two.until(lambda: len(kill.records_on_disk(killed)) >= STEPS // 2)
    two.processes[1].kill()
    statuses, said = two.ended(120)
    assert statuses[0] == 1, said
    for path in (killed, whole):
        statuses, said = Several(2, case.line(path, *line)).ended()
        assert statuses == [0, 0], said
    kill.STEPS = STEPS
    kill.assert_equal(whole, killed)
    return "the other ends at once with 1; both again: bit-equal to two that nothing befell"


def apart(one: Path, other: Path) -> float:
    """The largest relative difference of two runs' losses."""
    a, b = (
        [line["loss"] for line in map(json.loads, text.splitlines()) if "loss" in line]
        for text in ((path / "metrics.jsonl").read_text() for path in (one, other))
    )
    return max(abs(x - y) / abs(x) for x, y in zip(a, b, strict=True))


def used(folder: Path) -> int:
    """Bytes of its files in blocks of a disk."""
    return sum(512 * p.stat().st_blocks for p in folder.rglob("*") if p.is_file())


def largest(folder: Path) -> Path:
    """The file with the most bytes."""
    return max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)


FAULTS: dict[str, Callable[[Case], str]] = {
    fault.__name__: fault
    for fault in (
        truncated,
        flipped,
        half_deleted,
        all_damaged,
        elsewhere,
        disk_full,
        another_config,
        more_steps,
        another_mesh,
        signal_to_one_of_two,
        kill_one_of_two,
    )
}


def main(names: list[str]) -> int:
    """Let each strike; 1 where one was not survived."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        case = Case(Path(folder))
        for name in names or FAULTS:
            fault = FAULTS[name]
            try:
                came = fault(case)
            except AssertionError as error:
                failed, came = 1, f"NOT SURVIVED: {error}"
            print(f"{name}: {' '.join((fault.__doc__ or '').split())} -> {came}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
