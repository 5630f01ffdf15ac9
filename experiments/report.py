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

from experiments import claims, claims_table
from experiments.figures import draw_courses, draw_differences
from experiments.language_model.records import deciding, load_records
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
    pages = {RESULTS: page(), README: with_claims(README.read_text(encoding="utf-8"))}
    if options.check:
        stale = [path.name for path, text in pages.items() if path.read_text("utf-8") != text]
        sys.exit(f"stale: {', '.join(stale)}; run python -m experiments.report" if stale else 0)
    records = load_records()
    draw_differences(records, HERE / "figures")
    draw_courses(records, HERE / "figures")
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")


def with_claims(text: str) -> str:
    """The README with the claims table of today between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md: got no {BEGIN} and {END}, expected both; put them back.")
    return f"{before}{BEGIN}\n\n{claims_table.markdown()}\n{END}{after}"


def page() -> str:
    """RESULTS.md."""
    records = load_records()
    measure = deciding(records).split("_")[0]
    return f"""# Results

Written by `python -m experiments.report` from the files in `*/results/`. The questions and
commands are in [language_model](language_model/README.md),
[gaussian_process](gaussian_process/README.md) and, not run here,
[slimpajama](slimpajama/README.md). What was tried on the way, negative results included, is in
[LOG.md](LOG.md).

## Claims

Effects are paired by seed, with the 95 % interval of Student's t over seeds; for language models
they are bits per byte on {measure} text, less is better. Fixed before the runs: "loses little"
holds where the whole interval is below {claims.LITTLE} bits per byte; "improves" holds where it is
below zero, and does not where it is above -{claims.NOTHING}; "differs" holds where it leaves zero
out. One pair has no interval and decides nothing.

{claims_table.markdown()}
{_setting(records)}
## Language models

![differences](figures/language-models-differences.png)

![courses](figures/language-models-courses.png)

{variants_table(records)}
### Tuning

One seed, validation; the other families inherit. First 800 of the 2,000 steps:

{tuning_table(load_records("tuning"))}
Then learning rates at the whole length, where lower ones are better than the short trials said:

{tuning_table(load_records("tuning-long"))}
## Gaussian processes

The table and the figures are in [gaussian_process](gaussian_process/README.md#result).

## Presets

FLOPs are of matrix products, in rows of 128 tokens for micro and tiny, 256 for small and 1,024 for
paper, all pairs of positions counted.

{preset_table()}"""


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
    seeds = sorted({record["seed"] for record in records})
    return f"""{len(records)} runs of language models, seeds {seeds}.
Versions: {"; ".join(sorted(versions))}. Machine: {"; ".join(sorted(machines))}.

    python experiments/language_model/corpus.py
    cem sweep experiments/language_model/families.toml --out runs/language_model
    cem sweep experiments/language_model/pairs.toml --out runs/language_model
    python -m experiments.language_model.collect runs/language_model
    python -m experiments.gaussian_process run
    python -m experiments.report
"""


if __name__ == "__main__":
    main()
