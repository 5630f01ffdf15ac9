"""A run that starts from the parameters of another."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from cem_jax.models.weights import require_params
from cem_jax.runs.config import RunConfig
from cem_jax.runs.loading import load
from cem_jax.runs.text import Text
from cem_jax.sharding import Layout
from cem_jax.training import State


def require_start(config: RunConfig, text: Text, layout: Layout) -> dict[str, Any] | None:
    """The parameters that the run starts from, or None where it starts afresh.

    Their names and shapes must be the model's; how it uses them may differ, as in the number of
    inner steps.

    Raises:
        ValueError: there is no such run, or it has other parameters or another tokenizer.
    """
    if config.start is None:
        return None
    run = load(Path(config.start), layout=layout)
    try:
        require_params(config.model, run.params)
    except ValueError as error:
        raise ValueError(f"start: {error}") from error
    if run.hashes["tokenizer"] not in (None, text.hashes()["tokenizer"]):
        raise ValueError(
            f"start: got a run of another tokenizer, expected the same; give "
            f"--tokenizer {shlex.quote(str(run.folder.tokenizer))}."
        )
    return run.params


def started(state: State, params: dict[str, Any] | None) -> State:
    """A fresh state with these parameters, which are placed as its own."""
    return state if params is None else {**state, "params": params}
