"""A small set of cases in which every option, or every pair of options, occurs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
TRIES = 40


def covering(
    factors: dict[str, list[Any]], strength: int, allowed: Callable[[Row], bool]
) -> list[Row]:
    """Rows, one value per factor, that hold every combination of ``strength`` factors' values.

    Greedy and deterministic: each row is the best of some random ones around a combination that
    is still missing. Combinations that ``allowed`` never admits are left out.

    Args:
        factors: the values of each factor.
        strength: 1 for every value once, 2 for every pair, and so on.
        allowed: whether a whole row makes sense.
    """
    draw = random.Random(0)
    missing = list(_combinations(factors, strength))
    rows: list[Row] = []
    while missing:
        target = missing[0]
        candidates = [
            {name: draw.choice(values) for name, values in factors.items()} | dict(target)
            for _ in range(TRIES)
        ]
        candidates = [row for row in candidates if allowed(row)]
        if not candidates:
            missing.remove(target)
            continue
        best = max(candidates, key=lambda row: sum(_holds(row, one) for one in missing))
        missing = [one for one in missing if not _holds(best, one)]
        rows.append(best)
    return rows


def _combinations(factors: dict[str, list[Any]], strength: int) -> Any:
    for names in itertools.combinations(factors, strength):
        for values in itertools.product(*(factors[name] for name in names)):
            yield tuple(zip(names, values, strict=True))


def _holds(row: Row, combination: tuple[tuple[str, Any], ...]) -> bool:
    return all(row[name] == value for name, value in combination)
