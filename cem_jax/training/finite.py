"""Losses, gradients and parameters that are no finite numbers: what ends a run, what it skips."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp

Record = dict[str, Any]
"""What is known of a step, by name; a line of ``metrics.jsonl``."""

SKIPS = 10
"""How many steps in a row may be skipped; one more ends the run. A batch can be at fault for one
step or two; where none is finite any more the parameters are, and no later batch mends them."""

FIGURES = ("loss", "gradient_norm")
"""What must be finite of a step."""

ADVICE = "Lower the learning rate, warm up longer, or clip harder."


class NonFiniteError(ArithmeticError):
    """Losses, gradients or parameters that are no finite numbers; the run cannot go on from them.

    Attributes:
        step: the step it was seen at, from 1; its batch is that of ``step - 1``.
        suspect: the state that a loss which is not finite was of, which may have been saved. All
            before it are known to be good: the loss that follows each was finite.
    """

    def __init__(self, message: str, step: int, *, suspect: int | None = None) -> None:
        super().__init__(message)
        self.step = step
        self.suspect = suspect


class Guard:
    """Looks at the record of each step, in their order.

    Args:
        skipped: how many steps were skipped in a row before the first of them; see
            `skipped_in_a_row`.
    """

    def __init__(self, skipped: int = 0) -> None:
        self._skipped = skipped

    def __call__(self, record: Record) -> Record:
        """The record as it is written: JSON has no word for what is not finite.

        Of a skipped step (its ``skipped`` is not 0) it holds ``"skipped": 1`` and why in place of
        the figures.

        Raises:
            NonFiniteError: the figures of a step that was not skipped are not finite, or too many
                steps in a row were skipped.
        """
        if not record.get("skipped"):
            require_finite(record["step"], record, FIGURES, suspect=record["step"] - 1)
            self._skipped = 0
            return {name: value for name, value in record.items() if name != "skipped"}
        self._skipped += 1
        why = ", ".join(f"{name} {record[name]}" for name in FIGURES)
        if self._skipped > SKIPS:
            raise _too_many(record["step"], self._skipped, why)
        rest = {name: value for name, value in record.items() if name not in FIGURES}
        return {**rest, "skipped": 1, "why": why}


def skipped_in_a_row(records: Iterable[Record]) -> int:
    """How many of the last steps were skipped, from the lines of ``metrics.jsonl``.

    A run that goes on counts from there, as if it had never stopped.
    """
    count = 0
    for record in records:
        # What an evaluation reached is no step.
        if "tokens" in record:
            count = count + 1 if "skipped" in record else 0
    return count


def require_finite(
    step: int, record: Record, names: Iterable[str], *, suspect: int | None = None
) -> None:
    """Refuse figures of a step that are not finite.

    Raises:
        NonFiniteError: one is not.
    """
    for name in names:
        if not math.isfinite(record[name]):
            raise NonFiniteError(
                f"{name}: got {record[name]} at step {step}, expected a finite number; "
                f"training stops here, and checkpoints from before it are kept. {ADVICE}",
                step,
                suspect=suspect,
            )


def require_finite_params(done: int, params: dict[str, Any]) -> None:
    """Refuse parameters to save: a finite gradient can still be too large a step.

    Raises:
        NonFiniteError: some are not finite.
    """
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(params)):
        raise NonFiniteError(
            f"parameters: got some that are not finite after step {done}, expected finite numbers; "
            f"they are not saved. {ADVICE}",
            done,
        )


def _too_many(step: int, skipped: int, why: str) -> NonFiniteError:
    first = step - skipped + 1
    return NonFiniteError(
        f"non_finite: got {skipped} steps in a row that were skipped, {first} to {step} (the last: "
        f"{why}), expected at most {SKIPS}; training stops here, and checkpoints from before them "
        f"are kept. {ADVICE}",
        step,
        suspect=first - 1,
    )
