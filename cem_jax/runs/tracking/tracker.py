"""What a tracker is, and those that there are."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from cem_jax.ops.checks import require_one_of
from cem_jax.runs.folder import RunFolder
from cem_jax.runs.tracking.tensorboard import TensorBoard
from cem_jax.runs.tracking.wandb import WeightsAndBiases


@runtime_checkable
class Tracker(Protocol):
    """Takes records of steps, in order."""

    def record(self, records: Sequence[dict[str, Any]]) -> None:
        """Show these too."""

    def close(self) -> None:
        """Send what is left."""


class Kind(NamedTuple):
    """A tracker: its package, which is that of an extra of its name, and what begins it."""

    package: str
    begin: Callable[[RunFolder, dict[str, Any]], Tracker]


TRACKERS = {
    "tensorboard": Kind("tensorboardX", TensorBoard),
    "wandb": Kind("wandb", WeightsAndBiases),
}


def require_installed(names: Sequence[str]) -> None:
    """Refuse trackers that there are not, before any work.

    Raises:
        ValueError: a name that is none, or a package is missing.
    """
    for name in names:
        require_one_of("track", name, tuple(TRACKERS))
        package = TRACKERS[name].package
        if importlib.util.find_spec(package) is None:
            raise ValueError(
                f"track: got {name!r}, expected the package {package}, which is not installed; run "
                f"pip install '.[{name}]' in a clone, or pip install {package}."
            )


class Trackers:
    """All that were asked for; in a ``with`` block, which sends what is left.

    Args:
        names: of `TRACKERS`.
        folder: of the run.
        described: the content of ``config.json``.
    """

    def __init__(self, names: Sequence[str], folder: RunFolder, described: dict[str, Any]) -> None:
        self._names, self._folder, self._described = tuple(dict.fromkeys(names)), folder, described
        self._begun: list[Tracker] = []
        self._exit = contextlib.ExitStack()

    def begin(self) -> None:
        """Show what ``metrics.jsonl`` has, which ends at the state that the run goes on from."""
        for name in self._names:
            tracker = TRACKERS[name].begin(self._folder, self._described)
            self._exit.callback(tracker.close)
            self._begun.append(tracker)
        self.record(self._folder.metrics() if self._names else [])

    def record(self, records: Sequence[dict[str, Any]]) -> None:
        """Show these too."""
        # A skipped step says why in words, which are no curve.
        figures = [
            {name: value for name, value in record.items() if not isinstance(value, str)}
            for record in records
        ]
        for tracker in self._begun:
            tracker.record(figures)

    def __enter__(self) -> Trackers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exit.close()
