"""`cem export`: the weights of a run as safetensors."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

import tyro

from cem_jax.cli.quiet import quiet


@dataclasses.dataclass(frozen=True)
class Options:
    """Write the weights of a run for other programs.

    The folder holds model.safetensors (names such as blocks.attention.energy.wq, a tied embedding
    once), config.json (the model and what repeats its training), and the tokenizer. `cem import`
    reads it back.
    """

    run: tyro.conf.Positional[Path]
    """The folder of the run."""

    to: Path
    """The folder to write, which must not exist."""

    state: Literal["latest", "best"] = "latest"
    """The newest state of the run, or the best on validation."""


def main(arguments: list[str]) -> int:
    """Run ``cem export``.

    Raises:
        ValueError: no such run, or a folder that exists.
    """
    options = tyro.cli(Options, args=arguments, prog="cem export")
    quiet()
    # Imported here: what is above answers mistakes at once.
    from cem_jax.runs.exchange import export_run

    print(f"written: {export_run(options.run, options.to, which=options.state)}")
    return 0
