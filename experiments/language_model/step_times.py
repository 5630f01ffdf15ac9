"""The time of a training step of every variant, the sides in turn: for equal time.

    taskset -c 0 python -m experiments.language_model.step_times   # writes results/step-times.json

Clocks of the runs themselves say little: other work may have shared the machine. Here all variants
of pairs.toml take turns in one process, with the optimiser of their runs, and ratios are taken
within a round. Random tokens. On one core, as the runs were: taskset gives it one.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import numpy as np

from cem_jax.cli.sweep import config_of
from cem_jax.runs.benchmark.machine import described_machine, described_versions
from cem_jax.runs.benchmark.model import model_side
from cem_jax.runs.benchmark.shape import Shape
from cem_jax.runs.benchmark.timing import interleave
from cem_jax.runs.sweep.spec import read_spec
from experiments.language_model.records import STEP_TIMES

SPEC = Path(__file__).parent / "pairs.toml"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15, help="how often each variant runs")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"rounds: got {options.rounds}, expected at least 1")
    spec = read_spec(SPEC)
    sides, models = [], []
    for variant in spec.variants:
        config = config_of(variant)
        if config.model in models:
            # It differs in its number of steps alone.
            continue
        models.append(config.model)
        shape = Shape(
            batch=config.training.batch,
            length=config.training.length,
            vocab_size=config.model.vocab_size,
        )
        rule = config.training.optimiser
        sides.append(model_side(variant.name, config.model, shape, "step", optimiser=rule))
        print(f"compiled {variant.name}", flush=True)
    rounds = list(interleave(sides, options.rounds, at_least=0.3))
    text = json.dumps(summary(rounds, spec.baseline), indent=1)
    STEP_TIMES.write_text(text + "\n", encoding="utf-8")
    print(STEP_TIMES)


def summary(rounds: list[dict[str, float]], baseline: str) -> dict:
    """Median milliseconds, and median and quartiles of the ratio to the baseline, by variant."""
    times = {}
    for name in rounds[0]:
        ratios = [seconds[name] / seconds[baseline] for seconds in rounds]
        low, high = np.quantile(ratios, [0.25, 0.75])
        times[name] = {
            "milliseconds": round(1e3 * statistics.median(s[name] for s in rounds), 3),
            "ratio": round(statistics.median(ratios), 4),
            "quartiles": [round(float(low), 4), round(float(high), 4)],
        }
    return {
        "baseline": baseline,
        "rounds": len(rounds),
        "steps": times,
        "versions": described_versions(),
        "machine": described_machine(),
    }


if __name__ == "__main__":
    main()
