"""Curves for Weights & Biases: one run there for one here, however often it goes on."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from typing import Any

from cem_jax.runs.folder import RunFolder

SENT = "wandb.json"
"""In the folder of the run: its identity there, and up to which step each figure was sent."""

PROJECT = "cem_jax"
"""Where the environment variable WANDB_PROJECT names no other."""


class WeightsAndBiases:
    """Sends each figure of each step once.

    What was sent cannot be taken back: where a run goes on from a state before that, the steps that
    it repeats are not sent again. WANDB_MODE=offline keeps all in the folder ``wandb`` of the run.

    Args:
        folder: of the run.
        described: the content of ``config.json``, shown beside the curves.
    """

    def __init__(self, folder: RunFolder, described: dict[str, Any]) -> None:
        # Imported here: only who asks for it needs it.
        import wandb

        self._folder = folder
        self._sent = self._read()
        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=self._sent["id"],
            name=folder.path.name,
            dir=str(folder.path),
            config=described,
            resume="allow",
        )
        # Not wandb's own count of calls: figures of one step come in two records.
        self._run.define_metric("*", step_metric="step")
        self._folder.write(SENT, self._sent)

    def _read(self) -> dict[str, Any]:
        try:
            return self._folder.read(SENT, "id", "sent")
        except ValueError:
            return {"id": uuid.uuid4().hex[:12], "sent": {}}

    def record(self, records: Sequence[dict[str, Any]]) -> None:
        """Send what was not sent of these."""
        sent: dict[str, int] = self._sent["sent"]
        for record in records:
            step = record["step"]
            new = {name: record[name] for name in record if step > sent.get(name, 0)}
            if new.keys() - {"step"}:
                self._run.log({**new, "step": step})
                sent.update(dict.fromkeys(new.keys() - {"step"}, step))
        self._folder.write(SENT, self._sent)

    def close(self) -> None:
        """Send what is left."""
        self._run.finish()
