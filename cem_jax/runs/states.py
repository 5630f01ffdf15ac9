"""The saved states of a run, found from its folder."""

from __future__ import annotations

from pathlib import Path

from cem_jax.runs.folder import RunFolder
from cem_jax.training.saved import Saved, saved_states


def states_of(path: Path) -> list[Saved]:
    """The states of a run, those that were set aside last; nothing big is read.

    Args:
        path: the folder of a run, or of its states.

    Raises:
        ValueError: there is no such folder, or no state in it.
    """
    if not path.is_dir():
        raise ValueError(
            f"run: got {path}, which is no folder, expected that of a run, as cem train writes it, "
            f"or its checkpoints; check the name."
        )
    folder = RunFolder(path)
    own = folder.holds_a_run() or folder.checkpoints.is_dir()
    if not (states := saved_states(folder.checkpoints if own else path)):
        raise ValueError(
            f"run: got {path} without a saved state, expected a run that has one; train it for "
            f"longer, or choose another."
        )
    return states
