"""Curves elsewhere: the records of ``metrics.jsonl``, also to TensorBoard or Weights & Biases."""

from cem_jax.runs.tracking.tracker import TRACKERS, Tracker, Trackers, require_installed

__all__ = ["TRACKERS", "Tracker", "Trackers", "require_installed"]
