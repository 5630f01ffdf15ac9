"""Whether what is asked for is what a folder holds."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from cem_jax.runs.described import completed, differences, rebuild
from cem_jax.training import TrainingConfig
from cem_jax.training.schedule import told

FREE = frozenset({"record_every", "evaluate_every", "save_every", "keep", "non_finite"})
"""Fields of `TrainingConfig` that say what is written down and when, and not what is trained; and
what is done where training cannot go on: that of a run which came to there may be changed."""

ORDER = frozenset({"accumulate"})
"""Fields that decide the order of sums alone, as a mesh does: a run may go on with others, as on
devices with less memory, and is told that its last bits may differ."""


def identity(described: dict[str, Any]) -> dict[str, Any]:
    """What a state of a run belongs to: model, training and text.

    Args:
        described: the content of ``config.json``.
    """
    return {**_config(described), **described["hashes"]}


def _config(described: dict[str, Any]) -> dict[str, Any]:
    config = described["config"]
    kept = config["training"].items()
    training = {key: value for key, value in kept if key not in FREE | ORDER}
    # Where a text or a user's energy lies may change, what it says may not.
    model = _without_places(config["model"])
    return {"model": model, "training": training, "start": config["start"]}


def _without_places(described: Any) -> Any:
    if isinstance(described, dict):
        return {key: _without_places(value) for key, value in described.items() if key != "spec"}
    if isinstance(described, list):
        return [_without_places(item) for item in described]
    return described


def require_same(stored: dict[str, Any], asked: dict[str, Any]) -> None:
    """Refuse to go on with another run than the one that was begun, before its text is read.

    Raises:
        ValueError: model or training differ; each difference is named.
    """
    lines = differences(completed(_config(stored)), completed(_config(asked)))
    steps, more = (one["config"]["training"]["steps"] for one in (stored, asked))
    if len(lines) == 1 and more > steps:
        raise ValueError(_longer(stored["config"]["training"], more))
    _require_none(lines)


def require_same_text(stored: dict[str, Any], asked: dict[str, Any]) -> None:
    """Refuse to go on with another text or tokenizer.

    Raises:
        ValueError: a hash differs.
    """
    _require_none(differences(stored["hashes"], asked["hashes"]))


def _longer(described: dict[str, Any], more: int) -> str:
    """Why a run is not made longer, which is asked for often, and what to do instead."""
    training: TrainingConfig = rebuild(completed(described))
    steps, optimiser = training.steps, training.optimiser
    schedule = told(optimiser.schedule, optimiser.learning_rate, steps)
    return (
        f"resume: got {more:,} steps for a run of {steps:,}, expected {steps:,}: its learning rate "
        f"follows {schedule}; over {more:,} steps it would have been another. Finish it, and train "
        f"on from its weights with a schedule of its own: cem train --start RUN --steps "
        f"{more - steps} --out ANOTHER."
    )


def _require_none(lines: list[str]) -> None:
    if lines:
        shown = "; ".join(lines[:8]) + ("; ..." if len(lines) > 8 else "")
        raise ValueError(
            f"resume: got options that are not those of the run in this folder ({shown}), expected "
            f"the same; give --out and --resume alone to go on with the run as it is, or choose "
            f"another folder."
        )


def warn_of_other_bits(stored: dict[str, Any], asked: dict[str, Any], console: Console) -> None:
    """Say so where the run was begun with other versions, on another machine, or in other sums."""
    lines = [
        line for key in ("versions", "machine") for line in differences(stored[key], asked[key])
    ]
    sums = differences(_order(stored), _order(asked))
    for where, found in (("elsewhere", lines), ("with other sums", sums)):
        if found:
            console.print(
                f"The run was begun {where} ({'; '.join(found)}): its last bits may differ from "
                f"those of an uninterrupted run.",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )


def _order(described: dict[str, Any]) -> dict[str, Any]:
    training = completed(described["config"]["training"])
    return {name: training[name] for name in ORDER}
