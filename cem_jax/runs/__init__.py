"""A run: its config, its folder, and the way from text to figures."""

from cem_jax.runs.config import DataConfig, RunConfig

__all__ = ["DataConfig", "RunConfig"]
