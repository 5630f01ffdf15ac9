"""The claims as a table, with their effects and verdicts, from committed results alone."""

from __future__ import annotations

from typing import NamedTuple

from cem_jax.runs.sweep.statistics import Paired, paired
from cem_jax.runs.sweep.table import paired_text
from experiments.claims import AT_EQUAL_TIME, CLAIMS, Claim, Comparison, Kind, verdict
from experiments.equal_time import equal_time, step_ratio
from experiments.gaussian_process import gap
from experiments.language_model.records import deciding, figures, load_records

GP_TEXT = "On Gaussian processes, T = 4 and 8 lower RMSE further"


class Row(NamedTuple):
    """A line of the table."""

    key: str
    claim: str
    run: str
    effect: str
    verdict: str


def rows() -> list[Row]:
    """All claims in their order."""
    records = load_records()
    values = figures(records, deciding(records))
    made = [_language(claim, each, values) for claim in CLAIMS for each in claim.comparisons]
    made += [_timed(key, variant, values) for key, variant in AT_EQUAL_TIME.items()]
    made += _gaussian()
    return sorted(made, key=lambda row: int(row.key[1:]))


def markdown() -> str:
    """The table of `rows`, and how many of them are still to come; a claim's text stands once."""
    found = rows()
    lines = ["| | claim | what was run | effect [95 %] | verdict |", "|---|---|---|---|---|"]
    before = ""
    for row in found:
        key, claim = ("", "") if row.key == before else (row.key, row.claim)
        lines.append(f"| {key} | {claim} | {row.run} | {row.effect} | {row.verdict} |")
        before = row.key
    # An interval needs two pairs: what has fewer is no result yet.
    open_rows = sum("[" not in row.effect for row in found)
    if open_rows:
        lines += ["", f"{open_rows} of {len(found)} rows have fewer than two pairs yet."]
    return "\n".join(lines) + "\n"


def _language(claim: Claim, each: Comparison, values: dict[str, dict[int, float]]) -> Row:
    effect = paired(values.get(each.variant, {}), values.get(each.baseline, {}))
    note = f" ({each.note})" if each.note else ""
    run = f"`{each.variant}` minus `{each.baseline}`{note}"
    return _bits(claim, run, effect, each.kind)


def _timed(key: str, variant: str, values: dict[str, dict[int, float]]) -> Row:
    """C10 at equal time."""
    run, ratio = f"`{variant}`, {key}, equal time", step_ratio(variant)
    if ratio is None:
        return _bits(CLAIMS[-1], run, paired({}, {}), "loses little")
    found = equal_time(variant, ratio, values)
    run += f": a Llama of {found.steps:,.0f} steps"
    run += ", extrapolated" if found.extrapolated else ""
    return _bits(CLAIMS[-1], run, found.effect, "loses little")


def _bits(claim: Claim, run: str, effect: Paired, kind: Kind) -> Row:
    """A row of which the effect is in bits per byte."""
    bits = f"{paired_text(effect)} bits per byte" if effect.pairs else "-"
    return Row(claim.key, claim.text, run + _pairs(effect), bits, verdict(effect, kind))


def _gaussian() -> list[Row]:
    """C8: further steps against the half of them, as the share of the gap to Bayes."""
    shares = gap.shares()
    made = []
    for layers in (1, 2):
        for steps in (4, 8):
            name = f"1d-{layers}layer-cem-t"
            more, fewer = (shares.get(f"{name}{t}", {}) for t in (steps, steps // 2))
            # Less is better in a verdict, and a share is better where it is more.
            lost = paired(fewer, more)
            gained = Paired(lost.pairs, -lost.mean, -lost.high, -lost.low)
            run = f"T = {steps} minus T = {steps // 2}, 1-D, {layers} layer{'s' * (layers > 1)}"
            run += _pairs(gained)
            points = Paired(gained.pairs, *(100 * value for value in gained[1:]))
            effect = f"{_points(points)} % of the gap to Bayes" if gained.pairs else "-"
            made.append(Row("C8", GP_TEXT, run, effect, verdict(lost, "improves")))
    return made


def _pairs(effect: Paired) -> str:
    return f", {effect.pairs} pair{'s' * (effect.pairs != 1)}" if effect.pairs else ""


def _points(values: Paired) -> str:
    interval = f" [{values.low:+.2f}, {values.high:+.2f}]" if values.pairs > 1 else ""
    return f"{values.mean:+.2f}{interval}"
