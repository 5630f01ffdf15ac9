"""The claims as a table, with their effects and verdicts, from committed results alone."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from cem_jax.runs.sweep.statistics import Paired, paired
from experiments import pages
from experiments.claims import (
    AT_EQUAL_TIME,
    BITS,
    CLAIMS,
    GAP,
    SEEDS,
    SPIKE,
    STABLE,
    Claim,
    Comparison,
    Verdict,
    verdict,
)
from experiments.equal_time import equal_time, step_ratio
from experiments.gaussian_process import gap
from experiments.language_model.records import deciding, figures, load_records, training_flops

HEADER = ("", "claim", "what was run", "parameters, FLOPs", "effect [95 %]", "verdict")

BY_KEY = {claim.key: claim for claim in CLAIMS}


class Row(NamedTuple):
    """A line of the table.

    Attributes:
        key: of the claim.
        claim: its text.
        run: what was compared.
        cost: parameters outside the embedding, and FLOPs of the training, as ratios.
        pairs: how many seeds both sides have.
        effect: the difference, or what was seen.
        verdict: what it says of the claim.
    """

    key: str
    claim: str
    run: str
    cost: str
    pairs: int
    effect: str
    verdict: Verdict


def rows() -> list[Row]:
    """All claims in their order."""
    records = load_records()
    values = figures(records, deciding(records)) | gap.shares()
    costs = _costs(records)
    made = [_compared(claim, one, values, costs) for claim in CLAIMS for one in claim.comparisons]
    made += [_timed(key, variant, values) for key, variant in AT_EQUAL_TIME.items()]
    made += [_stable(variant, records) for variant in STABLE]
    return sorted(made, key=lambda row: int(row.key[1:]))


def markdown() -> str:
    """The table of `rows`, and how many of them are still to come; a claim's text stands once."""
    found = rows()
    cells, before = [], ""
    for row in found:
        first = ("", "") if row.key == before else (row.key, row.claim)
        cells.append((*first, row.run, row.cost, row.effect, row.verdict))
        before = row.key
    text = pages.table(HEADER, cells, len(HEADER))
    # An interval needs two pairs: what has fewer is no result yet.
    if open_rows := sum(row.pairs < 2 for row in found):
        text += f"\n{open_rows} of {len(found)} rows have fewer than two pairs yet.\n"
    return text


def _compared(
    claim: Claim, each: Comparison, values: dict[str, dict[int, float]], costs: dict[str, Any]
) -> Row:
    effect = paired(values.get(each.variant, {}), values.get(each.baseline, {}))
    note = f" ({each.note})" if each.note else ""
    run = f"`{each.variant}` minus `{each.baseline}`{note}{_pairs(effect.pairs)}"
    cost = _ratio(costs.get(each.variant), costs.get(each.baseline))
    shown = _effect(effect, percent=each.measure is GAP)
    unit = each.measure.unit if effect.pairs else ""
    decided = verdict(effect, each.kind, each.measure)
    return Row(claim.key, claim.text, run, cost, effect.pairs, f"{shown} {unit}".strip(), decided)


def _timed(key: str, variant: str, values: dict[str, dict[int, float]]) -> Row:
    """C10 at equal time."""
    claim, run, ratio = BY_KEY["C10"], f"`{variant}`, {key}, equal time", step_ratio(variant)
    if ratio is None:
        return Row(claim.key, claim.text, run, "", 0, "-", "not run")
    found = equal_time(variant, ratio, values)
    effect = found.effect
    run += f": a Llama of {found.steps:,.0f} steps"
    run += (", extrapolated" if found.extrapolated else "") + _pairs(effect.pairs)
    shown = f"{_effect(effect)} {BITS.unit}" if effect.pairs else "-"
    return Row(claim.key, claim.text, run, "", effect.pairs, shown, verdict(effect, "loses little"))


def _stable(variant: str, records: list[dict[str, Any]]) -> Row:
    """C7: whether the training loss of any seed ever jumps."""
    claim = BY_KEY["C7"]
    runs = [record for record in records if record["variant"] == variant]
    run = f"`{variant}`: the largest rise of the training loss (means of 50 steps)"
    if not runs:
        return Row(claim.key, claim.text, run, "", 0, "-", "not run")
    rise = max(map(largest_rise, runs))
    whole = len({record["seed"] for record in runs}) >= SEEDS
    held: Verdict = "holds" if whole else "open: not all seeds"
    # One that jumps is enough.
    held = held if rise <= SPIKE else "does not hold"
    effect = f"{rise:+.3f} nats in {len(runs)} run{'s' * (len(runs) > 1)}"
    return Row(claim.key, claim.text, run, "", len(runs), effect, held)


def largest_rise(record: dict[str, Any]) -> float:
    """From one mean of the training loss to the next, in nats."""
    losses = [loss for _, loss in record["course"]["training"]]
    return max(after - before for before, after in itertools.pairwise(losses))


def _costs(records: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Parameters outside the embedding and FLOPs of the training (products), by variant."""
    flops = training_flops(records)
    return {
        record["variant"]: (
            record["parameters_without_embeddings"],
            flops[record["variant"]],
        )
        for record in records
        if record["variant"] in flops
    }


def _ratio(own: tuple[float, float] | None, other: tuple[float, float] | None) -> str:
    if own is None or other is None:
        return ""
    return ", ".join(f"{a / b:.2f}" for a, b in zip(own, other, strict=True))


def _pairs(count: int) -> str:
    return f", {count} pair{'s' * (count != 1)}" if count else ""


def _effect(effect: Paired, *, percent: bool = False) -> str:
    if not effect.pairs:
        return "-"
    scale, form, mark = (100, "+.2f", " %") if percent else (1, "+.4f", "")
    mean, low, high = (format(scale * value, form) for value in effect[1:])
    return (f"{mean} [{low}, {high}]" if effect.pairs > 1 else mean) + mark
