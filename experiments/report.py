"""Write RESULTS.md, its figures, and the claims table of the README, from committed results.

    python -m experiments.report            # writes
    python -m experiments.report --check    # fails where what is committed is not up to date

From the root of the clone.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from experiments import claims_table, pages
from experiments.claims import BITS, GAP, SEEDS, SPIKE
from experiments.figures import draw_compute, draw_differences
from experiments.gaussian_process import report as gaussian_process
from experiments.language_model.records import load_records, text_of
from experiments.tables import preset_table, tuning_table, variants_table

HERE = Path(__file__).parent
RESULTS, README = HERE / "RESULTS.md", HERE.parent / "README.md"
BEGIN, END = "<!-- claims: written by python -m experiments.report -->", "<!-- end of claims -->"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args()
    written = {
        RESULTS: page(),
        README: with_claims(README.read_text(encoding="utf-8")),
        gaussian_process.README: gaussian_process.with_result(
            gaussian_process.README.read_text(encoding="utf-8")
        ),
    }
    if options.check:
        stale = [str(path) for path, text in written.items() if path.read_text("utf-8") != text]
        sys.exit(f"stale: {', '.join(stale)}; run python -m experiments.report" if stale else 0)
    records = load_records()
    draw_differences(records, HERE / "figures")
    draw_compute(records, HERE / "figures")
    gaussian_process.draw_figures()
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")


def with_claims(text: str) -> str:
    """The README with the claims table of today between its marks."""
    return pages.between(text, BEGIN, END, claims_table.markdown())


def page() -> str:
    """RESULTS.md."""
    records = load_records()
    return f"""# Results

Written by `python -m experiments.report` from the files in `*/results/`. The questions and
commands are in [language_model](language_model/README.md),
[gaussian_process](gaussian_process/README.md) and, not run here,
[slimpajama](slimpajama/README.md). What was tried on the way, negative results included, is in
[LOG.md](LOG.md).

## Claims

{_rule(records)}
{claims_table.markdown()}
{_setting(records)}
## Language models

![differences](figures/language-models-differences.png)

![compute](figures/language-models-compute.png)

Bits per byte are means over seeds ± their standard deviation. Seeds vary parameters and the order
of the data; the text is one and the same.

{variants_table(records)}
{_tuning()}
{_search()}
{_default()}
## Gaussian processes

The table and the figures are in [gaussian_process](gaussian_process/README.md#result).

## Presets

FLOPs are of matrix products, in rows of 128 tokens for micro and tiny, 256 for small and 1,024 for
paper, all pairs of positions counted. A CEM here has a shared diagonal and a preconditioner of rank
16; cem-context has the diagonal, a score of the context and a relative-position bias, and no
preconditioner.

{preset_table()}"""


def _rule(records: list[dict[str, Any]]) -> str:
    """How an interval became a verdict."""
    return f"""Effects are paired by seed, with the 95 % interval of Student's t over seeds; for
language models they are bits per byte of {text_of(records)} text, less is better, for Gaussian
processes the share of the gap between the trivial and the Bayes predictor, more is better. "Loses
little" holds where the whole interval is less than {BITS.little} bits per byte worse, and "adds
little" where less than {BITS.nothing} is lost without; "improves" holds where the whole interval is
better, and does not where it is less than {BITS.nothing} bits per byte ({100 * GAP.nothing:.1f} %
of the gap) better; "differs" holds where it leaves zero out. "Trains stably" holds where no mean of
50 training losses is more than {SPIKE} nats above the one before it. Nothing is judged before all
{SEEDS} seeds of a comparison have run. The intervals are not corrected for their number: of twenty
that should hold zero, one may not.

The rules for language models were written down before any pair but those of seed 0 was run; those
of Gaussian processes, and the step size for each step there, after their first results. The
parameters are those outside the embedding; the FLOPs, of the whole training, are the model's
products, without the optimiser's.
"""


def _tuning() -> str:
    """The trials."""
    return f"""### Tuning

One seed, validation; the other families inherit. Runs of 800 steps with a schedule of their own:

{tuning_table(load_records("tuning"))}
Learning rates at the whole length, where lower ones are better than the short trials said (seed 0,
which the claims use too, and the step sizes that were best above):

{tuning_table(load_records("tuning-long"))}
Step sizes at the whole length, since the best of the short trials were at the edge of what was
tried. Attention starts at 2 in the runs that count, MLPs at 0.05:

{tuning_table(load_records("tuning-eta"))}"""


def _search() -> str:
    """Energies beyond the paper's."""
    return f"""### Beyond the paper

One seed that no claim uses, validation; attention with eta = 1 at the start unless said, MLPs with
0.13. What the names mean is in [search.toml](language_model/search.toml). One seed says nothing of
its own spread: these differences point a way and prove nothing.

{variants_table(load_records("search"))}

With the best initial step sizes, eta = 2 and 0.05, unless said
([search-2.toml](language_model/search-2.toml)):

{variants_table(load_records("search-2"))}"""


def _default() -> str:
    """What `cem train` trains unless it is told."""
    return f"""### The default of `cem train`

At its own size and length, on the State of the Union messages: the preset tiny, 0.82 M tokens,
about one for each parameter, where the claims have ten. Validation; all have a relative-position
bias, and the same rate of 0.01 unless their name says another. What the names mean is in
[default.toml](language_model/default.toml).

{variants_table(load_records("default"), "llama-bias")}"""


def _setting(records: list[dict[str, Any]]) -> str:
    """Versions and machine of the runs, as they are stored with them."""
    versions = {
        ", ".join(
            f"{name} {record['versions'][name]}" for name in ("python", "jax", "flax", "optax")
        )
        for record in records
    }
    machines = {
        f"{record['machine']['cpus']} core{'s' * (record['machine']['cpus'] != 1)} of a CPU, "
        f"{record['machine']['platform']}"
        for record in records
    }
    seeds = ", ".join(map(str, sorted({record["seed"] for record in records})))
    return f"""{len(records)} runs of language models, seeds {seeds}.
Versions: {"; ".join(sorted(versions))}. Machine: {"; ".join(sorted(machines))}.

    python experiments/language_model/corpus.py
    cem sweep experiments/language_model/tuning.toml
    cem sweep experiments/language_model/tuning-long.toml
    cem sweep experiments/language_model/tuning-eta.toml
    cem sweep experiments/language_model/search.toml
    cem sweep experiments/language_model/search-2.toml
    cem sweep experiments/language_model/default.toml
    cem sweep experiments/language_model/families.toml --out runs/language_model --report test
    cem sweep experiments/language_model/pairs.toml --out runs/language_model --report test
    cem sweep experiments/language_model/best.toml --out runs/language_model --report test
    python -m experiments.language_model.collect runs/language_model   # others with --kind
    taskset -c 0 python -m experiments.language_model.step_times
    python -m experiments.gaussian_process tune
    python -m experiments.gaussian_process run
    python -m experiments.report

The test text is evaluated once by each run, at its end (`--report test`), and nothing was chosen by
it. Verdicts are read from it as soon as all runs have it, and from validation text before.
"""


if __name__ == "__main__":
    main()
