"""Which states are kept: the newest, and the best on validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

METRIC = "valid_loss"
"""The figure by which the best state is known; lower is better."""


class Retention:
    """A preservation policy of Orbax that knows the validation losses itself.

    Orbax's own reads them from a file in each state when it opens the folder, and one that is
    damaged would make all states unreadable.

    Args:
        keep: how many of the newest.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._losses: dict[int, float] = {}

    def add(self, step: int, loss: float | None) -> None:
        """Take note of a state; one that was not evaluated has no loss."""
        self._losses.pop(step, None)
        if loss is not None:
            self._losses[step] = loss

    def best(self, steps: Sequence[int]) -> int | None:
        """Of these steps the one with the lowest loss, the latest of equals; None if none has."""
        known = [step for step in steps if step in self._losses]
        return min(known, key=lambda step: (self._losses[step], -step), default=None)

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
        """Whether each is kept, oldest first; as Orbax asks."""
        steps = [int(checkpoint.step) for checkpoint in checkpoints]
        kept = {*steps[-self._keep :], self.best(steps)}
        return [step in kept for step in steps]
