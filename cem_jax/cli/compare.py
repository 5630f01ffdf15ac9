"""`cem compare`: several runs in one table and one picture."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Any, get_args

from cem_jax.cli.quiet import quiet
from cem_jax.cli.running import train_and_report
from cem_jax.cli.train_options import Choice, parse
from cem_jax.models import Family
from cem_jax.ops.checks import nearest
from cem_jax.runs.config import RunConfig
from cem_jax.runs.folder import RunFolder, next_folder, require_free

DESCRIPTION = """Several runs side by side: one table, and one picture of their course.

Each of A, B, ... is the folder of a run that has ended, or a family to train first: llama,
cem-attention, cem-mlp, cem, cem-context. The families share all options, which are those of cem
train, and see the text in the same order. An option that one of them lacks, such as --inner-steps
for llama, is an error: train those runs one by one, and compare their folders.

    cem compare llama cem-context --steps 300
    cem compare runs/llama-001 runs/cem-context-001

A comparison that was interrupted goes on with the same line and --resume."""


@dataclasses.dataclass(frozen=True)
class Where:
    """Where a comparison goes."""

    out: Path | None = None
    """A folder for the picture and for runs that are trained. By default runs/compare-001, or the
    next free number."""

    resume: bool = False
    """Go on with the runs in --out; those that have ended are only read."""


def main(arguments: list[str]) -> int:
    """Run ``cem compare``.

    Raises:
        ValueError: impossible options, or a run that is none or has not ended; before any work.
    """
    names, rest = _split(arguments)
    configs, where = _configs(names, rest)
    out = next_folder(Path("runs"), "compare") if where.out is None else where.out
    if RunFolder(out).holds_a_run():
        raise ValueError(f"out: got {out}, which holds a run, expected another folder.")
    folders = [RunFolder(out / name if name in configs else Path(name)) for name in names]
    for name, folder in zip(names, folders, strict=True):
        if name in configs:
            require_free(folder, resume=where.resume)
        else:
            _require_ended(folder)
    if len(names) < 2:
        raise ValueError(
            f"runs: got {names[0]} alone, expected at least two; for one run use cem train."
        )
    quiet()
    for name, folder in zip(names, folders, strict=True):
        if name in configs:
            config, again = configs[name], where.resume
            if status := train_and_report("cem compare", config, folder.path, resume=again):
                print(f"cem compare: {name} has not ended; the same line with --resume goes on")
                return status
    # Imported here: what is above answers mistakes at once.
    from cem_jax.runs.comparing import side_by_side
    from cem_jax.runs.progress import RunConsole

    console = RunConsole()
    table, picture = side_by_side(folders, out)
    console.print(table)
    console.print(f"The picture is {picture}.", markup=False, highlight=False, soft_wrap=True)
    return 0


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The runs, which stand before the first option, and the rest."""
    first = next((n for n, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    return arguments[:first], arguments[first:]


def _configs(names: list[str], rest: list[str]) -> tuple[dict[str, RunConfig], Any]:
    """The families that are to be trained, and where."""
    if any(word == "--model" or word.startswith("--model=") for word in rest):
        raise ValueError(
            "model: got --model, expected the families by name: cem compare llama cem-context."
        )
    configs: dict[str, RunConfig] = {}
    where: Any = None
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"runs: got {twice[0]} twice, expected each once; drop one.")
    families = [name for name in names if not Path(name).is_dir()]
    for name in families or [Choice.model]:
        _require_family(name)
        config, where = parse(
            [*rest, "--model", name], program="cem compare", base=Where, description=DESCRIPTION
        )
        configs[name] = config
    if not names:
        raise ValueError(
            "runs: got none, expected folders or families, as in `cem compare llama cem-context`."
        )
    options = [word for word in rest if word.startswith("-")]
    unused = [word for word in options if word.split("=")[0] not in ("--out", "--resume")]
    if unused and not families:
        raise ValueError(
            f"options: got {', '.join(unused)} where nothing is trained, expected --out alone."
        )
    return (configs if families else {}), where


def _require_family(name: str) -> None:
    known = get_args(Family)
    if name not in known:
        raise ValueError(
            f"runs: got {name!r}, expected the folder of a run, or one of {', '.join(known)}."
            f"{nearest(name, known)}"
        )


def _require_ended(folder: RunFolder) -> None:
    if not folder.holds_a_run():
        raise ValueError(
            f"runs: got {folder.path}, which holds no run, expected a folder that cem train wrote."
        )
    if folder.summary() is None:
        named = shlex.quote(str(folder.path))
        raise ValueError(
            f"runs: got {folder.path}, which has no summary, expected a run that has ended; go on "
            f"with cem train --resume --out {named}, or, with imported weights, train from "
            f"them with cem train --start {named}."
        )
