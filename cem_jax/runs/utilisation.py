"""How much of the devices' peak a run takes: model FLOPs utilisation, of each window of steps."""

from __future__ import annotations

import statistics
from typing import Any

from cem_jax.models import TransformerConfig
from cem_jax.models.cost import count_training_flops, mfu
from cem_jax.models.cost.utilisation import Accelerator
from cem_jax.training import TrainingConfig

KEY = "mfu"
"""Its name in ``metrics.jsonl`` and ``summary.json``: a fraction."""


class Utilisation:
    """Adds ``mfu`` to the records of steps, where the peak of the device is known.

    A window is what is fetched together: its steps over its seconds of training. The first after a
    start holds the compilation and has none. Every position of a batch counts, as one document per
    row, also one that is padding: the device computes it.

    Args:
        model: what is trained.
        training: how; of it batch and length.
        device: one of those that share a step.
        devices: how many they are.
    """

    def __init__(
        self,
        model: TransformerConfig,
        training: TrainingConfig,
        device: Accelerator,
        devices: int,
    ) -> None:
        self._flops = count_training_flops(
            model, batch=training.batch, length=training.length, pairs="visible"
        )
        self._dtype, self._device, self._devices = model.dtype, device, devices
        self._since: float | None = None

    def add(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The records of one window, with ``mfu`` where there is one."""
        since, self._since = self._since, records[-1]["seconds"]
        if since is None or self._since <= since:
            return records
        seconds = (self._since - since) / len(records)
        part = mfu(self._flops, seconds, self._device, dtype=self._dtype, devices=self._devices)
        return records if part is None else [{**record, KEY: part} for record in records]


def median_utilisation(metrics: list[dict[str, Any]]) -> dict[str, float]:
    """``{"mfu": ...}``, the median over windows; nothing where no record has one.

    Args:
        metrics: the records of ``metrics.jsonl``.
    """
    windows = {record["seconds"]: record[KEY] for record in metrics if KEY in record}
    return {KEY: statistics.median(windows.values())} if windows else {}
