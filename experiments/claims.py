"""The claims, and the rule by which an interval becomes a verdict.

An effect is a difference between two models, paired by seed.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

from cem_jax.runs.sweep.statistics import Paired


class Measure(NamedTuple):
    """What models are compared by.

    Attributes:
        unit: of a difference.
        more_is_better: or else less is.
        little: a difference that counts as little.
        nothing: one below which an improvement is none.
    """

    unit: str
    more_is_better: bool
    little: float
    nothing: float


BITS = Measure("bits per byte", False, little=0.02, nothing=0.005)
"""Of held-out text; 0.02 is about one percent of what the models reach."""

GAP = Measure("of the gap to Bayes", True, little=0.02, nothing=0.005)
"""The share of the gap between the trivial and the Bayes predictor that a model closes."""

Kind = Literal["loses little", "loses nothing", "improves", "differs"]

Verdict = Literal[
    "holds", "does not hold", "not decidable at this scale", "open: not all seeds", "not run"
]

SEEDS = 5
"""Of each comparison. None is judged before all have run: who looks at every interval on the way
will find one that leaves zero out."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One difference: a variant, what it is compared with, and what is claimed of it.

    Attributes:
        variant: its name in the sweeps.
        baseline: likewise.
        kind: ``"loses little"``: it is at most a little worse; ``"loses nothing"``: by nothing
            that counts; ``"improves"``: it is better; ``"differs"``: it is one or the other.
        note: what is equal or not between the two.
        measure: what they are compared by.
    """

    variant: str
    baseline: str
    kind: Kind
    note: str = ""
    measure: Measure = BITS


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim of the paper, or ours, and the comparisons that decide it.

    Attributes:
        key: C1 ... C11.
        text: what is claimed.
        comparisons: each has a verdict of its own.
    """

    key: str
    text: str
    comparisons: tuple[Comparison, ...]


def verdict(effect: Paired, kind: Kind, measure: Measure = BITS) -> Verdict:
    """What the 95 % interval of a paired difference says of a claim.

    "loses little" holds where the whole interval is less than `Measure.little` worse, and does not
    where it is more; "loses nothing" likewise, with `Measure.nothing`. "improves" holds where the
    whole interval is better, and does not where it is less than `Measure.nothing` better. "differs"
    holds where the interval leaves zero out, and does not where it lies within `Measure.nothing` of
    it. Between, this scale does not decide. With fewer than `SEEDS` pairs all is open.

    Args:
        effect: the difference.
        kind: what is claimed of it.
        measure: whose difference it is.
    """
    if not effect.pairs:
        return "not run"
    if effect.pairs < SEEDS:
        return "open: not all seeds"
    if kind == "differs":
        if effect.low > 0 or effect.high < 0:
            return "holds"
        none = effect.low > -measure.nothing and effect.high < measure.nothing
        return "does not hold" if none else "not decidable at this scale"
    # How much worse, at least and at most.
    ends = (-effect.high, -effect.low) if measure.more_is_better else (effect.low, effect.high)
    holds, fails = {
        "loses little": (measure.little, measure.little),
        "loses nothing": (measure.nothing, measure.nothing),
        "improves": (0.0, -measure.nothing),
    }[kind]
    if ends[1] < holds:
        return "holds"
    return "does not hold" if ends[0] > fails else "not decidable at this scale"


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
        # The other way round: without it, nothing that counts is lost.
        (Comparison("cem-t2", "cem-t2-p", "loses nothing", "T = 2 without P, over with P"),),
    ),
    Claim(
        "C7",
        "Full CEM (T = 2, D+LR) trains stably and is comparable with Llama with fewer parameters",
        (
            Comparison("cem-t2", "llama", "loses little", "without P"),
            Comparison("cem-t2-p", "llama", "loses little", "with P"),
        ),
    ),
    Claim(
        "C8",
        "On Gaussian processes, T = 4 and 8 lower RMSE further (here: 1,000 steps of training)",
        (
            *(
                Comparison(
                    f"1d-{layers}layer-cem-t{steps}",
                    f"1d-{layers}layer-cem-t{steps // 2}",
                    "improves",
                    "one eta for all steps",
                    GAP,
                )
                for layers in (1, 2)
                for steps in (4, 8)
            ),
            *(
                Comparison(
                    f"1d-1layer-cem-t{steps}-s",
                    f"1d-1layer-cem-t{steps // 2}-s",
                    "improves",
                    "an eta for each step",
                    GAP,
                )
                for steps in (4, 8)
            ),
        ),
    ),
    Claim(
        "C9",
        "Within-layer recursion differs from looping whole blocks",
        # The rest is equal, eta too, which is not tuned for twice the depth.
        (Comparison("cem-t2", "looped-cem", "differs", "T = 2, and T = 1 looped twice"),),
    ),
    Claim(
        "C10",
        "C1, C2 and C7 at equal parameters, equal FLOPs and equal time",
        (
            Comparison("attention-none-t1-8heads", "llama", "loses little", "C1, equal parameters"),
            Comparison("attention-none-t1", "llama", "loses little", "C1, no more FLOPs"),
            Comparison("mlp-nonlinear-t1-258", "llama", "loses little", "C2, equal parameters"),
            Comparison("mlp-nonlinear-t1", "llama", "loses little", "C2, equal FLOPs"),
            Comparison("cem-t2-equal", "llama", "loses little", "C7, equal parameters"),
            Comparison("cem-t2", "llama-3527", "loses little", "C7, equal FLOPs"),
        ),
    ),
    Claim(
        "C11",
        "A context score (ours; T = 1) beats the paper's energy, and loses little to Llama; all "
        "with a relative bias",
        (
            Comparison("context-full", "paper-full", "improves", "full CEM, equal parameters"),
            Comparison("context-full", "llama-bias", "loses little", "full CEM"),
            Comparison("context", "llama-bias", "loses little", "attention"),
            # Added when two seeds of the first had been seen, and none of the second.
            Comparison("paper-full", "cem-t2-equal", "improves", "bias alone, over T = 2 without"),
        ),
    ),
)

AT_EQUAL_TIME = {"C1": "attention-none-t1", "C2": "mlp-nonlinear-t1", "C7": "cem-t2"}
"""What is also compared with a Llama that trains for as long; see `equal_time`."""

STABLE = ("cem-t2", "cem-t2-p")
"""The variants that C7 says train stably."""

SPIKE = 0.1
"""Nats by which the training loss, a mean over 50 steps, may rise from one such mean to the next in
a run that is called stable."""
