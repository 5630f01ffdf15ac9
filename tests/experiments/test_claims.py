"""The rule of the verdicts, and that what is claimed is what is run."""

import math
import pathlib
import tomllib

import pytest

from cem_jax.runs.sweep.statistics import Paired
from experiments.claims import BITS, CLAIMS, GAP, verdict
from experiments.gaussian_process.plan import CASES

LITTLE, NOTHING = BITS.little, BITS.nothing
SPECS = pathlib.Path(__file__).parents[2] / "experiments" / "language_model"


@pytest.mark.parametrize(
    ("low", "high", "kind", "expected"),
    [
        (-0.01, LITTLE - 1e-3, "loses little", "holds"),
        (LITTLE + 1e-3, 0.5, "loses little", "does not hold"),
        (0.0, 0.5, "loses little", "not decidable at this scale"),
        (-0.01, NOTHING - 1e-3, "loses nothing", "holds"),
        (NOTHING + 1e-3, 0.5, "loses nothing", "does not hold"),
        (0.0, 0.5, "loses nothing", "not decidable at this scale"),
        (-0.02, -1e-3, "improves", "holds"),
        (1e-3, 0.1, "improves", "does not hold"),
        (-NOTHING + 1e-3, 0.1, "improves", "does not hold"),
        (-0.1, 0.1, "improves", "not decidable at this scale"),
        (1e-3, 0.1, "differs", "holds"),
        (-0.1, -1e-3, "differs", "holds"),
        (-NOTHING / 2, NOTHING / 2, "differs", "does not hold"),
        (-NOTHING / 2, 2 * NOTHING, "differs", "not decidable at this scale"),
    ],
)
def test_the_interval_alone_decides(low, high, kind, expected):
    assert verdict(Paired(5, (low + high) / 2, low, high), kind) == expected


@pytest.mark.parametrize(
    ("low", "high", "kind", "expected"),
    [
        (1e-3, 0.1, "improves", "holds"),
        (-0.1, GAP.nothing - 1e-3, "improves", "does not hold"),
        (-1e-3, 0.1, "improves", "not decidable at this scale"),
        (1e-3 - GAP.little, 0.1, "loses little", "holds"),
        (-0.5, -GAP.little - 1e-3, "loses little", "does not hold"),
    ],
)
def test_of_a_gap_closed_more_is_better(low, high, kind, expected):
    assert verdict(Paired(5, (low + high) / 2, low, high), kind, GAP) == expected


@pytest.mark.parametrize("kind", ["loses little", "loses nothing", "improves", "differs"])
def test_nothing_is_decided_before_all_seeds_and_none_was_not_run(kind):
    assert verdict(Paired(1, -1.0, math.nan, math.nan), kind) == "open: not all seeds"
    assert verdict(Paired(4, -1.0, -1.1, -0.9), kind) == "open: not all seeds"
    assert verdict(Paired(0, math.nan, math.nan, math.nan), kind) == "not run"


def test_every_variant_of_a_claim_is_run_with_five_seeds_and_the_same_options():
    pairs, best, families = (
        tomllib.loads((SPECS / f"{name}.toml").read_text())
        for name in ("pairs", "best", "families")
    )
    run = {variant["name"]: variant for variant in pairs["variants"] + best["variants"]}
    compared = {
        name
        for claim in CLAIMS
        for each in claim.comparisons
        if each.measure is BITS
        for name in (each.variant, each.baseline)
    }
    assert compared <= run.keys()
    gaps = [each for claim in CLAIMS for each in claim.comparisons if each.measure is GAP]
    assert {name for each in gaps for name in (each.variant, each.baseline)} <= CASES.keys()
    assert len(pairs["seeds"]) == len(best["seeds"]) == 5
    # Of all but the rate, which is an option of its own in one of them.
    assert {**pairs["options"], "optimiser.learning-rate": 0.01} == best["options"]
    assert {variant["optimiser.learning-rate"] for variant in pairs["variants"]} == {0.01}
    # What both files have is one run.
    assert pairs["options"] == families["options"]
    shared = [each for each in families["variants"] if each["name"] in run]
    assert len(shared) > 10
    assert all(each == run[each["name"]] for each in shared)
