"""What the paper's scale costs, from the counts of the models and the peaks of devices.

    python -m experiments.slimpajama.plan            # writes the table of README.md
    python -m experiments.slimpajama.plan --check    # fails where it is not up to date

Tokens are 20 for each parameter of the Llama (Hoffmann et al., arXiv 2203.15556), the same for all
families. Hours are FLOPs / (devices x peak in bfloat16 x 0.4); nothing here was measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple, get_args

from cem_jax.models import Family, TransformerConfig, default_recipe
from cem_jax.models.cost import count_parameters, count_training_flops, peak_flops
from experiments import pages

HERE = Path(__file__).parent
README = HERE / "README.md"
BEGIN, END = (
    "<!-- cost: written by python -m experiments.slimpajama.plan -->",
    "<!-- end of cost -->",
)
TOKENS_PER_PARAMETER = 20
UTILISATION = 0.4


class Machine(NamedTuple):
    """Several equal devices; ``device_kind`` is what JAX calls one."""

    label: str
    device_kind: str
    devices: int


MACHINES = (
    Machine("8 x H100", "NVIDIA H100 80GB HBM3", 8),
    Machine("TPU v5e-32", "TPU v5e", 32),
    Machine("TPU v6e-16", "TPU v6e", 16),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args()
    before = README.read_text(encoding="utf-8")
    after = with_cost(before)
    if options.check:
        sys.exit("README.md: stale; run python -m experiments.slimpajama.plan" * (before != after))
    README.write_text(after, encoding="utf-8")


def with_cost(text: str) -> str:
    """The page with today's table between its marks."""
    return pages.between(text, BEGIN, END, table())


def table() -> str:
    """A row for each family: parameters, FLOPs of the whole training, hours on each machine."""
    header = ["", "parameters", "without embeddings", "tokens", "training FLOPs"]
    header += [f"hours, {machine.label}" for machine in MACHINES]
    rows = [
        _row(family, steps)
        for family in get_args(Family)
        for steps in ((None,) if family == "llama" else (1, 2))
    ]
    return pages.table(header, rows)


def steps_and_shape() -> tuple[int, int, int]:
    """Steps, rows and tokens of a row, as paper.toml has them."""
    options = tomllib.loads((HERE / "paper.toml").read_text(encoding="utf-8"))["options"]
    return options["steps"], options["batch"], options["length"]


def chinchilla_steps(batch: int, length: int) -> int:
    """Steps that see 20 tokens for each parameter of the Llama."""
    tokens = TOKENS_PER_PARAMETER * count_parameters(TransformerConfig.paper("llama")).total
    return -(-tokens // (batch * length))


def _row(family: Family, inner: int | None) -> list[str]:
    steps, batch, length = steps_and_shape()
    recipe = default_recipe(family)
    if inner is not None:
        recipe = dataclasses.replace(recipe, steps=inner)
    config = TransformerConfig.paper(family, recipe)
    count = count_parameters(config)
    flops = steps * batch * count_training_flops(config, batch=1, length=length, pairs="visible")
    name = family if inner is None else f"{family}, T = {inner}"
    cells = [name, f"{count.total / 1e6:.1f} M", f"{count.without_embedding / 1e6:.1f} M"]
    cells += [f"{steps * batch * length / 1e9:.2f} B", f"{flops:.2e}"]
    return cells + [f"{_hours(flops, machine):.2f}" for machine in MACHINES]


def _hours(flops: float, machine: Machine) -> float:
    peak = peak_flops(machine)
    assert peak is not None
    return flops / (machine.devices * peak * UTILISATION) / 3600


if __name__ == "__main__":
    main()
