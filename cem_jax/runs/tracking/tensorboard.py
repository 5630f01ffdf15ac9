"""Curves for TensorBoard, in the folder ``tensorboard`` of the run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

from cem_jax.runs.folder import RunFolder


class TensorBoard:
    """Writes events, all anew from the first record: a run that goes on has no step twice.

    Args:
        folder: of the run.
        described: of no use here.
    """

    def __init__(self, folder: RunFolder, described: dict[str, Any]) -> None:
        # Imported here: only who asks for it needs it.
        from tensorboardX import SummaryWriter

        where = folder.path / "tensorboard"
        shutil.rmtree(where, ignore_errors=True)
        # A TensorBoard that is open forgets what it has of steps from here on.
        self._writer: Any = SummaryWriter(str(where), purge_step=0)

    def record(self, records: Sequence[dict[str, Any]]) -> None:
        """One point of each figure."""
        for record in records:
            for name, value in record.items():
                if name != "step":
                    self._writer.add_scalar(name, value, record["step"])
        self._writer.flush()

    def close(self) -> None:
        """End the file."""
        self._writer.close()
