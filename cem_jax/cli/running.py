"""A run as a command ends it: with a status, and what to do next."""

from __future__ import annotations

import functools
import shlex
import signal
import sys
from pathlib import Path

import jax

from cem_jax.runs.config import RunConfig
from cem_jax.runs.reporting import Report
from cem_jax.runs.watch import Watch
from cem_jax.sharding import MeshShape


def train_and_report(
    program: str,
    config: RunConfig,
    out: Path,
    *,
    resume: bool,
    report: Report = "full",
    mesh: MeshShape | None = None,
    watch: Watch | None = None,
) -> int:
    """Train; the exit status is 0, 1 for no finite end or no space, 130 after Ctrl-C.

    SIGTERM, as a scheduler sends before it takes the machine away, is no failure: 0, once the
    state is saved.

    Args:
        program: the command's name in messages.
        config: the run.
        out: its folder.
        resume: whether it may have been begun.
        report: what is evaluated at its end.
        mesh: over which devices it is spread; by default one.
        watch: what is looked at while it trains.
    """
    from cem_jax.runs.progress import RunConsole
    from cem_jax.runs.session import run
    from cem_jax.sharding.processes import OtherProcessError, is_first, of_one_gone
    from cem_jax.training import NonFiniteError, StoppedError

    go_on = functools.partial(_go_on, out, report)
    try:
        console = RunConsole(quiet=not is_first())
        run(config, out, console, resume=resume, report=report, mesh=mesh, watch=watch)
    except NonFiniteError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1
    except OtherProcessError as error:
        print(f"{program}: {error}; {go_on()}", file=sys.stderr)
        return 1
    except StoppedError as error:
        print(f"{program}: {error}, which is saved; {go_on()}", file=sys.stderr)
        return 0 if error.signal == signal.SIGTERM else 130
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        if (gone := of_one_gone(error)) is None:
            raise
        print(f"{program}: {gone}; {go_on()}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{program}: interrupted at once; {go_on()}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"{program}: {error}; what was saved before is whole: {go_on()}", file=sys.stderr)
        return 1
    return 0


def _go_on(out: Path, report: Report) -> str:
    """How to go on with a run; what it reports is not among what a run keeps."""
    line = f"go on with: cem train --resume --out {shlex.quote(str(out))}"
    if report != "full":
        line += f" --report {report}"
    return line + " --processes ..., on each of them" * (jax.process_count() > 1)
