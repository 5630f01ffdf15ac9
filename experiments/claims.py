"""The claims, and the rule by which an interval becomes a verdict; fixed before the runs.

An effect is a difference of bits per byte on held-out text, paired by seed; less is better.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from cem_jax.runs.sweep.statistics import Paired

LITTLE = 0.02
"""Bits per byte that count as little: about one percent of what the models reach."""

NOTHING = 0.005
"""Bits per byte below which an improvement is none."""

Kind = Literal["loses little", "improves", "differs"]

Verdict = Literal["holds", "does not hold", "not decidable at this scale", "not run"]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One difference: a variant, what it is compared with, and what is claimed of it.

    Attributes:
        variant: its name in the sweeps.
        baseline: likewise.
        kind: ``"loses little"``: it is at most `LITTLE` worse; ``"improves"``: it is better;
            ``"differs"``: it is one or the other.
        note: what is equal or not between the two.
    """

    variant: str
    baseline: str
    kind: Kind
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim of the paper, or ours, and the comparisons that decide it.

    Attributes:
        key: C1 ... C10.
        text: what is claimed.
        comparisons: each has a verdict of its own.
    """

    key: str
    text: str
    comparisons: tuple[Comparison, ...]


def verdict(effect: Paired, kind: Kind) -> Verdict:
    """What the 95 % interval of a paired difference says of a claim.

    "loses little" holds where the whole interval is below `LITTLE`, and does not where it is above.
    "improves" holds where the whole interval is below zero, and does not where it is above
    -`NOTHING`. "differs" holds where the interval leaves zero out, and does not where it lies
    between -`NOTHING` and `NOTHING`. Between, this scale does not decide.
    """
    if not effect.pairs:
        return "not run"
    if math.isnan(effect.low):
        return "not decidable at this scale"
    if kind == "differs":
        if effect.low > 0 or effect.high < 0:
            return "holds"
        none = effect.low > -NOTHING and effect.high < NOTHING
        return "does not hold" if none else "not decidable at this scale"
    holds, fails = {"loses little": (LITTLE, LITTLE), "improves": (0.0, -NOTHING)}[kind]
    if effect.high < holds:
        return "holds"
    return "does not hold" if effect.low > fails else "not decidable at this scale"


CLAIMS = (
    Claim(
        "C1",
        "CEM attention (T = 1) with half of MHA's parameters loses little",
        (
            Comparison("attention-none-t1", "llama", "loses little", "low rank"),
            Comparison("attention-shared-t1", "llama", "loses little", "with a shared diagonal"),
        ),
    ),
    Claim(
        "C2",
        "CEM MLP (T = 1) with two-thirds of SwiGLU's parameters loses little",
        (Comparison("mlp-nonlinear-t1", "llama", "loses little"),),
    ),
    Claim(
        "C3",
        "T = 1 -> 2 improves attention and MLP",
        (
            Comparison("attention-shared-t2", "attention-shared-t1", "improves", "attention"),
            Comparison("mlp-nonlinear-t2", "mlp-nonlinear-t1", "improves", "MLP"),
            Comparison("cem-t2", "cem-t1", "improves", "both"),
        ),
    ),
    Claim(
        "C4",
        "T = 2 CEM attention beats Llama with fewer parameters",
        (Comparison("attention-shared-t2", "llama", "improves"),),
    ),
    Claim(
        "C5",
        "A shared diagonal beats none and per-head",
        (
            Comparison("attention-shared-t1", "attention-none-t1", "improves", "over none"),
            Comparison("attention-shared-t1", "attention-head-t1", "improves", "over per-head"),
        ),
    ),
    Claim(
        "C6",
        "The preconditioner adds little beyond recursion",
        (
            # The other way round: without it, little is lost.
            Comparison("cem-t2", "cem-t2-p", "loses little", "T = 2 without over with P"),
            Comparison("cem-t1", "cem-t1-p", "loses little", "T = 1 without over with P"),
        ),
    ),
    Claim(
        "C7",
        "Full CEM (T = 2, D+LR) is comparable with Llama with fewer parameters",
        (
            Comparison("cem-t2", "llama", "loses little", "without P"),
            Comparison("cem-t2-p", "llama", "loses little", "with P"),
        ),
    ),
    Claim(
        "C9",
        "Within-layer recursion differs from looping whole blocks",
        (Comparison("cem-t2", "looped-cem", "differs", "T = 2, and T = 1 looped twice"),),
    ),
    Claim(
        "C10",
        "C1, C2 and C7 at equal parameters, equal FLOPs and equal time",
        (
            Comparison("attention-none-t1-8heads", "llama", "loses little", "C1, equal parameters"),
            Comparison("mlp-nonlinear-t1-258", "llama", "loses little", "C2, equal parameters"),
            Comparison("cem-t2-equal", "llama", "loses little", "C7, equal parameters"),
            Comparison("cem-t2", "llama-3527", "loses little", "C7, equal FLOPs"),
        ),
    ),
)

AT_EQUAL_TIME = {"C1": "attention-none-t1", "C2": "mlp-nonlinear-t1", "C7": "cem-t2"}
"""What is also compared with a Llama that trains for as long; see `equal_time`. A CEM MLP at T = 1
has a Llama's FLOPs, and low-rank attention at T = 1 a few fewer: C1 and C2 stand at equal FLOPs
already."""
