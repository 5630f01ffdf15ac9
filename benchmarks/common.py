"""What the scripts of this folder share: their options, and how they begin."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tyro

from cem_jax.ops.checks import require_count
from cem_jax.runs.benchmark.session import Plan, carry_out

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"


@dataclasses.dataclass(frozen=True)
class Common:
    """The options of every script."""

    rounds: int = 20
    """How often every side runs."""

    out: Path = RESULTS
    """The folder for the JSON file, the table and the pictures."""

    label: str = ""
    """Is added to the names of the files, where several machines or versions are measured."""

    def __post_init__(self) -> None:
        require_count("rounds", self.rounds)
        if Path(self.label).name != self.label:
            raise ValueError(f"label: got {self.label!r}, expected a part of a file's name.")


def start(options: type[Common], plan: Callable[[Any], Plan], arguments: list[str]) -> int:
    """Parse the command line, make the plan and carry it out; the exit status.

    Args:
        options: the script's own, whose docstring is its help.
        plan: from options; what it refuses is one message and the status 2.
        arguments: of the command line.
    """
    script = Path(sys.argv[0]).name
    try:
        chosen = tyro.cli(options, args=arguments)
        work = plan(chosen)
    except ValueError as error:
        print(f"{script}: {error}", file=sys.stderr)
        return 2
    command = shlex.join(["python", f"benchmarks/{script}", *arguments])
    return carry_out(work, chosen.rounds, command, chosen.out, chosen.label)
