"""What a run is reported on at its end."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from cem_jax.runs.figures import FIGURES

Report = Literal["full", "test", "valid"]
"""``"valid"`` leaves the test text alone, while choices are still being made; ``"test"`` evaluates
both; ``"full"`` also counts the n-grams that stand beside them."""


class Reported(NamedTuple):
    """What a report asks for."""

    splits: tuple[str, ...]
    references: bool

    @classmethod
    def of(cls, report: Report) -> Reported:
        """By its name."""
        splits = ("valid",) if report == "valid" else ("valid", "test")
        return cls(splits, references=report == "full")

    def satisfied_by(self, summary: dict[str, Any]) -> bool:
        """Whether a summary has all of it."""
        figures = [f"{split}_{name}" for split in self.splits for name in FIGURES]
        return all(name in summary for name in figures) and (
            not self.references or "references" in summary
        )
