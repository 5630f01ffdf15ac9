"""Saved states as they lie on disk, told apart without their model: what `Checkpoints` wrote."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from collections.abc import Sequence
from pathlib import Path

from cem_jax.training.beside import DamagedError, beside
from cem_jax.training.checkpoint import DAMAGED
from cem_jax.training.retention import METRIC, Retention

TIMES = Path("_CHECKPOINT_METADATA")
"""In the folder of a state: when it was written."""


@dataclasses.dataclass(frozen=True)
class Saved:
    """A state in its folder.

    Attributes:
        path: of the folder.
        step: its number.
        set_aside: whether it was moved out of the way.
        bytes: of its files.
        time: when it was written; None where its files do not say.
        valid_loss: of the evaluation at its step; None where there was none.
    """

    path: Path
    step: int
    set_aside: bool
    bytes: int
    time: datetime.datetime | None
    valid_loss: float | None


def saved_states(folder: Path) -> list[Saved]:
    """The states of a checkpoint folder by their steps, then those set aside beside it.

    Only names, sizes and small files are read; what vanishes meanwhile is left out.

    Args:
        folder: that of `Checkpoints`.
    """
    aside = folder.parent / f"{folder.name}-{DAMAGED}"
    listed = [_look(path, set_aside=False) for path in _within(folder, r"\d+")]
    # One that is set aside for the second time is ``step-1``.
    moved = [_look(path, set_aside=True) for path in _within(aside, r"\d+(-\d+)?")]
    return sorted(
        (state for state in listed + moved if state is not None),
        key=lambda state: (state.set_aside, state.step, state.path.name),
    )


def best_of(states: Sequence[Saved]) -> int | None:
    """The step with the lowest validation loss among those that are not set aside."""
    retention = Retention(keep=1)
    listed = [state for state in states if not state.set_aside]
    for state in listed:
        retention.add(state.step, state.valid_loss)
    return retention.best([state.step for state in listed])


def newest_of(states: Sequence[Saved]) -> int | None:
    """The last step among those that are not set aside."""
    return max((state.step for state in states if not state.set_aside), default=None)


def _within(place: Path, names: str) -> list[Path]:
    """The folders of these names."""
    paths = place.iterdir() if place.is_dir() else ()
    return [path for path in paths if re.fullmatch(names, path.name) and path.is_dir()]


def _look(path: Path, *, set_aside: bool) -> Saved | None:
    """None where it has gone."""
    try:
        loss = beside(path)["metadata"].get(METRIC)
    except DamagedError:
        loss = None
    try:
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    except OSError:
        size = 0
    if not path.is_dir():
        return None
    return Saved(path, int(path.name.partition("-")[0]), set_aside, size, _time(path), loss)


def _time(path: Path) -> datetime.datetime | None:
    try:
        times = json.loads((path / TIMES).read_text(encoding="utf-8"))
        seconds = times["commit_timestamp_nsecs"] / 1e9
        return datetime.datetime.fromtimestamp(seconds).astimezone()
    except (OSError, ValueError, KeyError, TypeError):
        return None
