"""`cem checkpoint`: what the saved states of a run are, and whether they can be read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from cem_jax.cli.quiet import quiet

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from cem_jax.training.saved import Saved


@dataclasses.dataclass(frozen=True)
class List:
    """The saved states of a run: step, time, size and validation loss, the newest and the best.

    Those that were set aside stand last: they could not be read, or were under suspicion of a loss
    that was no finite number. Nothing big is read: that a state is listed does not say that it is
    whole, which cem checkpoint verify does.
    """

    run: tyro.conf.Positional[Path]
    """The folder of the run, or of its checkpoints."""


@dataclasses.dataclass(frozen=True)
class Verify:
    """Read the saved states of a run in full, and compare their numbers with what was saved.

    Each array has a checksum that was taken as it was saved. There is one line for each state, ok
    or what is wrong with it, and the exit status is 1 where one is damaged. Nothing is changed, and
    the run may be training meanwhile: a state that it deletes is no damage.
    """

    run: tyro.conf.Positional[Path]
    """The folder of the run, or of its checkpoints."""

    step: int | None = None
    """Read the state of this step only; by default all."""


def main(arguments: list[str]) -> int:
    """Run ``cem checkpoint``; the exit status is 0, or 1 where a state is damaged.

    Raises:
        ValueError: no such run, state, or step.
    """
    commands = (
        Annotated[List, tyro.conf.subcommand("list")]
        | Annotated[Verify, tyro.conf.subcommand("verify")]
    )
    options = tyro.cli(commands, args=arguments or ["--help"], prog="cem checkpoint")
    quiet()
    # Imported here: what is above answers mistakes at once.
    from cem_jax.runs.states import states_of

    states = states_of(options.run)
    if isinstance(options, Verify):
        return _verify(states, options.step)
    from rich.console import Console

    Console().print(listed(states))
    return 0


def listed(states: list[Saved]) -> Table:
    """The states as a table."""
    from rich import box
    from rich.table import Table

    from cem_jax.training.saved import best_of, newest_of

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("step", "written", "MB", "valid loss"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    newest, best = newest_of(states), best_of(states)
    for state in states:
        marks = {"newest": state.step == newest, "best": state.step == best}
        shown = ", ".join(mark for mark, holds in marks.items() if holds)
        table.add_row(
            f"{state.step:,}",
            "-" if state.time is None else f"{state.time:%Y-%m-%d %H:%M:%S}",
            f"{state.bytes / 1e6:,.2f}",
            "-" if state.valid_loss is None else f"{state.valid_loss:.4f}",
            "set aside as damaged" if state.set_aside else shown,
        )
    return table


def _verify(states: list[Saved], step: int | None) -> int:
    """Say of each state what it is; those that were set aside are not read."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    from cem_jax.training.verifying import array_bytes

    listed = [state for state in states if not state.set_aside]
    chosen = [state for state in listed if step in (None, state.step)]
    if step is not None and not chosen:
        known = ", ".join(str(state.step) for state in listed)
        raise ValueError(f"step: got {step}, expected one of {known or 'none: there is no other'}.")
    console = Console()
    columns = "reading", BarColumn(), DownloadColumn(), TimeRemainingColumn()
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with bar:
        task = bar.add_task("", total=sum(array_bytes(state.path) for state in chosen))
        told = [_told(state, lambda count: bar.advance(task, count), console) for state in chosen]
    if len(listed) < len(states):
        console.print(f"{len(states) - len(listed)} set aside as damaged before: not read")
    return 1 if any(told) else 0


def _told(state: Saved, advanced: Callable[[int], None], console: Console) -> bool:
    """Read a state, and say what it is; whether it is damaged."""
    from cem_jax.training.beside import DamagedError
    from cem_jax.training.verifying import VanishedError, verify_state

    damaged = False
    try:
        unchecked = verify_state(state.path, advanced)
        what = f"ok; {unchecked} arrays have no checksum" if unchecked else "ok"
    except DamagedError as error:
        damaged, what = True, f"damaged: {error}"
    except VanishedError:
        what = "gone: deleted meanwhile, as by a run that keeps its newest"
    console.print(f"step {state.step}: {what}", markup=False, highlight=False, soft_wrap=True)
    return damaged
