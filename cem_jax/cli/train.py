"""`cem train`: a model, trained on text, and what it reached."""

from __future__ import annotations

import dataclasses
import functools
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import jax
import tyro

from cem_jax.cli.mistakes import is_ours
from cem_jax.cli.quiet import quiet
from cem_jax.cli.running import train_and_report
from cem_jax.cli.train_options import parse
from cem_jax.runs.config import RunConfig
from cem_jax.runs.folder import RunFolder, next_folder, require_free
from cem_jax.runs.profiling import Window
from cem_jax.runs.reporting import Report
from cem_jax.runs.watch import Watch
from cem_jax.sharding import Layout, MeshShape, Processes
from cem_jax.sharding.mesh import PRESETS
from cem_jax.sharding.processes import leave
from cem_jax.sharding.topology import topology_devices

DESCRIPTION = """Train a small language model on real text and report what it reached.

The default takes a few minutes on two CPU cores: the best energies found so far, on the State of
the Union messages (in a clone: pip install '.[demo]'). Every run has a fixed number of steps, so
that runs can be repeated and compared: `cem train --model llama` trains the baseline of the same
width, layers and steps, and `cem compare llama cem-context` both. At the end stand the figures on
text that was held out, beside those of n-gram models.

A run that is interrupted (Ctrl-C, SIGTERM, kill -9) goes on with `cem train --resume --out RUN`,
and ends as if nothing had happened.

Every field of the model and of the training is an option: --model.layers 6,
--model.attention.energy.diagonal none, --optimiser.learning-rate 0.01."""


@dataclasses.dataclass(frozen=True)
class Where:
    """Where a run goes."""

    out: Path | None = None
    """The folder of the run, new or empty. By default runs/MODEL-001, or the next free number."""

    resume: bool = False
    """Go on with the run in --out from its newest state, or begin where there is none yet. Give no
    other options, or those that the run was begun with."""

    report: Report = "full"
    """What the run is evaluated on at its end: full (validation, test, and n-gram models beside
    them), test (without n-grams), or valid, which leaves the test text alone while choices are
    still being made; --resume --out RUN --report full makes up for it."""

    mesh: str = "single"
    """Over which devices the run is spread: single (one), data (rows), fsdp (rows, parameters and
    moments), fsdp+tensor (heads and features in two parts as well), context (positions), or sizes
    such as fsdp=4,tensor=2. It decides nothing else: a run may go on with another."""

    processes: str | None = None
    """Several processes, one on each host and each with this same line: auto where JAX knows them
    (TPU slices, Slurm, Open MPI, GKE), else INDEX/COUNT@HOST:PORT, the port being free on the host
    of process 0. --out is a folder that all of them see. See docs/launching.md."""

    profile: str | None = None
    """FIRST:LAST, such as 100:110: the steps, both included, of which jax.profiler writes a trace
    to RUN/profile: where the time goes, on the host and on the devices. TensorBoard's profile
    plugin (xprof) shows it, jax.profiler.ProfileData reads it. The first step compiles: take
    others."""

    track: tyro.conf.UseAppendAction[tuple[Literal["tensorboard", "wandb"], ...]] = ()
    """Show the records of metrics.jsonl there too, also several: tensorboard writes RUN/tensorboard
    (the extra tensorboard; then tensorboard --logdir runs, which is a package of its own), wandb
    sends them to Weights & Biases (the extra wandb; WANDB_PROJECT, WANDB_MODE=offline and its other
    variables hold). A run that goes on with --resume goes on there, no step twice."""

    dry_run: bool = False
    """Compile a training step for the mesh, and show what it takes on each device: memory, FLOPs,
    and what is sent. Train nothing, read no text. On a CPU the devices of sizes are simulated."""

    topology: str | None = None
    """For --dry-run, a TPU slice that is not here, such as v5e:2x4: its compiler, of the extra tpu,
    says what a step takes there."""


def main(arguments: list[str]) -> int:
    """Run ``cem train``; the exit status is 0, 1 for no finite end, 130 where it was interrupted.

    Raises:
        ValueError: impossible options, before any work.
    """
    config, out, where = _read(arguments)
    if where.topology is not None and not where.dry_run:
        raise ValueError(f"topology: got {where.topology} to train on, expected --dry-run with it.")
    if where.dry_run:
        return _dry_run(config, where.mesh, where.topology)
    watch = _watch(where, config)
    quiet()
    if where.processes is not None:
        _require_folder(where)
        Processes.parse(where.processes).start()
    require_free(RunFolder(out), resume=where.resume)
    mesh = MeshShape.parse(where.mesh, jax.device_count())
    run = functools.partial(
        train_and_report,
        "cem train",
        config,
        out,
        resume=where.resume,
        report=where.report,
        mesh=mesh,
        watch=watch,
    )
    return run() if where.processes is None else _of_several(run)


def _of_several(run: Callable[[], int]) -> int:
    """A process that fails leaves at once: the others would wait for it, and it for them."""
    try:
        status = run()
    except Exception as error:
        if isinstance(error, ValueError) and is_ours(error):
            print(f"cem train: {error}", file=sys.stderr)
            leave(2)
        traceback.print_exc()
        leave(1)
    if status == 1:
        leave(status)
    return status


def _require_folder(where: Where) -> None:
    """The next free number would be another for a process that comes later."""
    if where.out is None:
        raise ValueError("out: got none for several processes, expected --out RUN, one for all.")


def _watch(where: Where, config: RunConfig) -> Watch:
    steps = config.training.steps
    window = None if where.profile is None else Window.parse(where.profile, steps)
    return Watch(profile=window, track=where.track)


def _dry_run(config: RunConfig, mesh: str, topology: str | None) -> int:
    """Show what the run would take; sizes are simulated where this is a CPU."""
    from cem_jax.runs.dry_run import dry_run, told

    quiet()
    if topology is not None:
        devices = topology_devices(topology)
    else:
        if mesh not in PRESETS:
            # Before JAX has begun, and of no effect where there are accelerators.
            jax.config.update("jax_num_cpu_devices", MeshShape.parse(mesh, 1).devices)
        devices = jax.devices()
    shape = MeshShape.parse(mesh, len(devices))
    print(told(dry_run(config, Layout(shape.build(devices))), str(shape)))
    return 0


def _read(arguments: list[str]) -> tuple[RunConfig, Path, Where]:
    """The run, its folder, and what else is said of it."""
    if (where := _alone(arguments)) is not None:
        from cem_jax.runs.described import rebuild

        assert where.out is not None
        return rebuild(RunFolder(where.out).config()["config"]), where.out, where
    config, options = parse(arguments, program="cem train", base=Where, description=DESCRIPTION)
    if options.resume and options.out is None:
        raise ValueError("resume: got no folder, expected --out RUN, the run to go on with.")
    out = next_folder(Path("runs"), config.name) if options.out is None else options.out
    return config, out, options


def _alone(arguments: list[str]) -> Where | None:
    """A run that is to go on as it is: nothing of its model, training or text is given."""
    if "-h" in arguments or "--help" in arguments:
        return None
    where, rest = tyro.cli(Where, args=arguments, prog="cem train", return_unknown_args=True)
    if rest or not where.resume or where.out is None:
        return None
    return where if RunFolder(where.out).holds_a_run() else None
