"""`cem verify`: certify that the layers are what they claim."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from cem_jax.runs.user_energy import load_energy


@dataclasses.dataclass(frozen=True)
class Options:
    """Certify that the layers are what they claim.

    Every layer is computed in three columns, and their outputs and all gradients are compared in
    float64, float32 and bfloat16:

    A: the energy in plain JAX, differentiated by JAX's own rules, no custom derivative under it.
    B: the layer as shipped, on every backend that runs here.
    C: the layer written by hand: attention with tied weights, a gated MLP with tied projections.

    A = B says that the given derivatives are right, A = C that the gradient of the energy is the
    layer one would write. The exit status is 0 if all agree, 1 if anything does not, 2 for
    impossible options. The default covers every option once, in a minute or two on two cores.

    An energy of your own (--attention my_energy.py:MyEnergy) needs no hand-written form: column C
    is then central differences in float64.
    """

    full: bool = False
    """Every pair of options instead of every option, and float32 compiled as in training; takes
    several minutes."""

    attention: str | None = None
    """FILE.py:CLASS, only this energy of yours: a subclass of cem_jax.Energy that
    CLASS(dim, rngs=rngs) makes."""

    json: Path | None = None
    """A file for the table, for programs."""

    seed: int = 0
    """Of the parameters and the data at which the columns are compared."""


def main(arguments: list[str]) -> int:
    """Run ``cem verify``; the exit status is 0, or 1 where any comparison fails.

    Raises:
        ValueError: impossible options, before any work.
    """
    import tyro

    options = tyro.cli(Options, args=arguments, prog="cem verify")
    if not 0 <= options.seed < 2**32:
        raise ValueError(f"seed: got {options.seed}, expected a number in [0, 2^32).")
    if options.json is not None and (options.json.is_dir() or not options.json.parent.is_dir()):
        raise ValueError(
            f"json: got {options.json}, expected a file in a folder that exists; create "
            f"{options.json.parent} first."
        )
    energy = None if options.attention is None else load_energy(options.attention)
    # Imported here: what is above answers mistakes at once.
    from rich.console import Console
    from rich.progress import Progress

    from cem_jax.evaluation.certificate import report, verify

    jobs = verify.jobs(full=options.full, energy=energy, seed=options.seed)
    console = Console()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("comparing", total=len(jobs))
        rows = verify.run(jobs, lambda job: progress.advance(task))
    console.print(report.table(rows))
    console.print(report.summary(rows), highlight=False)
    if options.json is not None:
        options.json.write_text(json.dumps(report.as_json(rows), indent=1) + "\n")
    return 0 if all(row.passed for row in rows) else 1
