"""The result in words of numbers: a table, and the section of the README that holds it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from experiments import pages
from experiments.gaussian_process.figures import FIGURES, draw_figures
from experiments.gaussian_process.gap import interval, paired_differences, percent, shares
from experiments.gaussian_process.plan import CASES, SEEDS
from experiments.gaussian_process.prior import FIVE, ONE
from experiments.gaussian_process.results import FOLDER, load_floor, load_results

README = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- result: written by the report command -->", "<!-- end of result -->"
LABELS = {"p": "preconditioner", "d": "shared diagonal", "pd": "both", "s": "eta of each step"}

HEADER = (
    *("prior", "layers", "attention", "parameters", "seeds", "test RMSE", "gap closed, %"),
    *("after 48 pairs, %", "minus T = 1, points", "s"),
)


def table(folder: Path = FOLDER) -> str:
    """A row for each case with finished runs: means over seeds, with 95 % t intervals."""
    runs, overall, late = load_results(folder), shares("overall", folder), shares("late", folder)
    differences = paired_differences("overall", folder)
    rows = []
    for name, by_seed in runs.items():
        case = CASES[name]
        paired = differences.get((case.prior.name, case.layers), {}).get(case.kind, {})
        mse = np.mean([one["test_mse"] for one in by_seed.values()])
        first = next(iter(by_seed.values()))
        cells = [
            case.prior.name,
            case.layers,
            label(case.kind),
            f"{first['parameters']:,}",
            len(by_seed),
            f"{math.sqrt(mse):.3f}",
            percent(interval(overall[name].values())),
            percent(interval(late[name].values())),
            percent(interval(paired.values()), sign="+") if paired else "",
            f"{np.mean([one['processor_seconds'] for one in by_seed.values()]):.0f}",
        ]
        rows.append(cells)
    return pages.table(HEADER, rows, 3)


def label(kind: str) -> str:
    """As in ``"CEM, T = 4, shared diagonal"``."""
    if kind == "mha":
        return "MHA"
    _, steps, *richer = kind.split("-")
    return ", ".join(["CEM", f"T = {steps[1:]}", *(LABELS[one] for one in richer)])


def floors(folder: Path = FOLDER) -> str:
    """The RMSE of the predictors that are not trained."""
    rows = []
    for prior in (ONE, FIVE):
        floor: dict[str, Any] = load_floor(prior, folder)
        values = [math.sqrt(np.mean(floor[name])) for name in ("trivial", "bayes", "known")]
        rows.append([prior.name, *(f"{value:.3f}" for value in values)])
    header = ("prior", "prior mean 0", "Bayes", "Bayes, hyper-parameters known")
    return pages.table(header, rows)


def result(folder: Path = FOLDER) -> str:
    """The section of the README."""
    done = sum(map(len, load_results(folder).values()))
    return f"""{done} of {len(CASES) * len(SEEDS)} runs are finished. RMSE against the noisy value \
over all 64 positions of the test draw:

{floors(folder)}
Means over seeds, ± half of the 95 % t interval over seeds. "Gap closed" is over all positions, \
then over the last 16; "minus T = 1" is the difference of the former to T = 1 at the same seed, \
prior and depth; s are the processor seconds of a run, compilation included.

{table(folder)}
![RMSE against the number of pairs before the prediction](figures/rmse-against-position.png)

![Share of the gap closed against the number of inner steps](figures/gap-against-steps.png)
"""


def write_report(folder: Path = FOLDER, readme: Path = README, out: Path = FIGURES) -> None:
    """Write the figures, and the result between its two marks in the README.

    Raises:
        ValueError: the README has no place for it.
    """
    text = with_result(readme.read_text(encoding="utf-8"), folder)
    draw_figures(folder, out)
    readme.write_text(text, encoding="utf-8")


def with_result(text: str, folder: Path = FOLDER) -> str:
    """The README with the result of today between its marks."""
    return pages.between(text, BEGIN, END, result(folder))
