"""How a run is watched while it trains: nothing that is trained depends on it."""

from __future__ import annotations

import dataclasses

from cem_jax.runs.profiling import Window
from cem_jax.runs.tracking import require_installed


@dataclasses.dataclass(frozen=True)
class Watch:
    """What is looked at beside what every run writes; no part of what a run is.

    Attributes:
        profile: the steps of which a trace is written; None writes none.
        track: where the curves are shown too, of `tracking.TRACKERS`; its package must be there.
    """

    profile: Window | None = None
    track: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_installed(self.track)
