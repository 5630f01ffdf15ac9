"""`cem bench`: models side by side, in time and memory."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Annotated, Literal

import tyro

from cem_jax.cli.quiet import quiet
from cem_jax.ops.checks import require_count
from cem_jax.runs.benchmark.shape import Shape


@dataclasses.dataclass(frozen=True)
class Options:
    """Compare models side by side, in time and memory.

    The sides take turns, round after round, so that a drift of the machine reaches all of them;
    the first is the baseline, and each ratio is taken within a round. A table shows the median
    and the quartiles of the ratios, beside the ratio of the FLOPs.

    A side is llama, or one of these with a number of inner steps T:

    cem-T: the CEM, with a shared diagonal and a preconditioner of rank 16.
    hand-T: the same with every update written out by hand instead of derived by autograd.
    plain-T: the same by plain jax.grad of the naive attention energy, without a given derivative.

    With -bare at its end, as in cem-2-bare, there is neither diagonal nor preconditioner.
    """

    sides: tuple[str, ...] = ()
    """What to compare, the baseline first. By default llama, the CEM with T = 1, 2 and 4, bare and
    not, and hand-2 and plain-2."""

    what: Literal["step", "forward"] = "step"
    """A whole training step with AdamW, or the forward pass with its loss."""

    shape: Annotated[Shape, tyro.conf.arg(name="")] = Shape()
    """Of the models and of a batch."""

    rounds: int = 10
    """How often every side runs."""

    backend: str | None = None
    """The attention backend of the cem sides; by default the package chooses."""

    out: Path | None = None
    """A folder for a JSON file, the table and a picture."""

    name: str = "bench"
    """How the files begin."""

    explain: bool = False
    """Say which attention backend each side uses and why, and measure nothing."""


def main(arguments: list[str]) -> int:
    """Run ``cem bench``; the exit status is 0, or 130 after Ctrl-C.

    Raises:
        ValueError: impossible options, before any work.
    """
    options = tyro.cli(Options, args=arguments, prog="cem bench")
    require_count("rounds", options.rounds)
    if not options.name or Path(options.name).name != options.name:
        raise ValueError(f"name: got {options.name!r}, expected the beginning of a file's name.")
    if options.out is not None and options.out.exists() and not options.out.is_dir():
        raise ValueError(f"out: got {options.out}, which is a file, expected a folder.")
    quiet()
    # Imported here: what is above answers mistakes at once.
    from cem_jax.runs.benchmark.comparison import plan, side_configs
    from cem_jax.runs.benchmark.explain import explain
    from cem_jax.runs.benchmark.session import carry_out

    configs = side_configs(options.sides, options.shape, options.backend)
    if options.explain:
        for name, config in configs.items():
            print(f"{name}:", *explain(config, options.shape), sep="\n  ")
        return 0
    work = plan(options.name, configs, options.shape, options.what)
    command = shlex.join(["cem", "bench", *arguments])
    return carry_out(work, options.rounds, command, options.out)
