"""`cem evaluate`: the figures of a run, recomputed from its checkpoint."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal

import tyro

from cem_jax.cli.quiet import quiet


@dataclasses.dataclass(frozen=True)
class Options:
    """Recompute what a run reached, from its checkpoint and its text.

    With the same machine and versions the figures are those of summary.json to the last digit.
    --inner-steps runs a CEM with another number of gradient steps than it was trained with, and
    --data evaluates on the validation and test parts of another text.
    """

    run: tyro.conf.Positional[Path]
    """The folder of the run."""

    inner_steps: int | None = None
    """T of all CEM layers; by default the run's own."""

    state: Literal["latest", "best"] = "latest"
    """The newest state, which summary.json is of, or the best on validation on the way."""

    data: str | None = None
    """Another text, as for cem train."""

    json: Path | None = None
    """A file for the figures, for programs."""


def main(arguments: list[str]) -> int:
    """Run ``cem evaluate``.

    Raises:
        ValueError: impossible options, no such run, or a text that is not the run's.
    """
    options = tyro.cli(Options, args=arguments, prog="cem evaluate")
    if options.json is not None and not options.json.parent.is_dir():
        raise ValueError(
            f"json: got {options.json}, expected a file in a folder that exists; create "
            f"{options.json.parent} first."
        )
    quiet()
    # Imported here: what is above answers mistakes at once.
    from cem_jax.runs.evaluating import evaluate
    from cem_jax.runs.folder import RunFolder
    from cem_jax.runs.progress import RunConsole
    from cem_jax.runs.report import table

    console = RunConsole()
    figures = evaluate(
        options.run,
        console,
        inner_steps=options.inner_steps,
        which=options.state,
        data=options.data,
    )
    steps = "" if options.inner_steps is None else f", T = {options.inner_steps}"
    console.print(table([figures], f"{options.run}, state of step {figures['step']:,}{steps}"))
    if options == dataclasses.replace(Options(options.run), json=options.json):
        beside = _beside(figures, RunFolder(options.run).summary())
        console.print(beside, soft_wrap=True, markup=False)
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


def _beside(figures: dict[str, Any], summary: dict[str, Any] | None) -> str:
    """How the figures compare with those of the run's end."""
    if summary is None:
        return "There is no summary to compare with: the run was imported, or has not ended."
    names = ("valid_loss", "test_loss", "valid_bits_per_byte", "test_bits_per_byte")
    other = [name for name in names if name in summary and figures[name] != summary[name]]
    if not other:
        return "Equal to summary.json, to the last digit."
    moved = ", ".join(f"{name} {figures[name]!r} for {summary[name]!r}" for name in other)
    return f"Not equal to summary.json ({moved}): another machine, or other versions."
