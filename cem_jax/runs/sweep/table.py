"""A sweep for the eye: a row for each variant, with its spread over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table

from cem_jax.runs.sweep.results import BITS, Result, by_variant
from cem_jax.runs.sweep.statistics import Paired, Spread, paired, spread

TEST_BITS = "test_bits_per_byte"

COLUMNS = (
    ("parameters without embeddings", "parameters_without_embeddings", ",.0f"),
    ("forward FLOPs per token", "forward_flops_per_token", ",.0f"),
    ("tokens per second", "tokens_per_second", ",.0f"),
)
"""Label, key in ``summary.json`` and format of what stands beside the bits per byte."""


def sweep_table(found: Sequence[Result], baseline: str) -> Table:
    """Mean and standard deviation over seeds, and paired differences from the baseline.

    Args:
        found: runs that have ended.
        baseline: the variant that the others are compared with.
    """
    figures = [BITS]
    if any(TEST_BITS in result.summary for result in found):
        figures.append(TEST_BITS)
    table = Table(title=f"means over seeds; differences are paired by seed, from {baseline}")
    table.add_column("variant")
    table.add_column("seeds", justify="right")
    for figure in figures:
        table.add_column(figure.replace("_", " "), justify="right")
        table.add_column("difference [95 %]", justify="right")
    for label, _, _ in COLUMNS:
        table.add_column(label, justify="right")
    values = {figure: by_variant(found, figure) for figure in figures}
    for variant, seeds in values[BITS].items():
        cells = [variant, str(len(seeds))]
        for figure in figures:
            own, base = (values[figure].get(name, {}) for name in (variant, baseline))
            cells.append(spread_text(spread(list(own.values()))))
            cells.append("" if variant == baseline else paired_text(paired(own, base)))
        table.add_row(*cells, *_beside(found, variant))
    return table


def spread_text(values: Spread) -> str:
    """``1.2345 ± 0.0012``; without a deviation the mean alone."""
    if not values.seeds:
        return "-"
    sure = math.isfinite(values.deviation)
    return f"{values.mean:.4f}" + (f" ± {values.deviation:.4f}" if sure else "")


def paired_text(values: Paired) -> str:
    """``+0.0123 [+0.0100, +0.0146]``; of one pair the difference alone."""
    if not values.pairs:
        return "-"
    sure = math.isfinite(values.low)
    return f"{values.mean:+.4f}" + (f" [{values.low:+.4f}, {values.high:+.4f}]" if sure else "")


def _beside(found: Sequence[Result], variant: str) -> list[str]:
    """The means of the other figures."""
    cells = []
    for _, key, form in COLUMNS:
        own = by_variant(found, key).get(variant, {})
        cells.append(format(spread(list(own.values())).mean, form) if own else "-")
    return cells
