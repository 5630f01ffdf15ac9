"""`cem bench` as a plan: models that take turns."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from cem_jax.models import TransformerConfig
from cem_jax.runs.benchmark.measuring import Job
from cem_jax.runs.benchmark.model import What, model_side
from cem_jax.runs.benchmark.picture import draw_ratios
from cem_jax.runs.benchmark.quantities import TIME_OVER_FLOPS, TIME_RATIO
from cem_jax.runs.benchmark.session import Plan
from cem_jax.runs.benchmark.shape import Shape
from cem_jax.runs.benchmark.sides import DEFAULT, model_config
from cem_jax.runs.benchmark.timing import Side

DONE = {"step": "training step", "forward": "forward loss"}
"""What a side does, in words."""


def side_configs(
    names: Sequence[str], shape: Shape, backend: str | None = None
) -> dict[str, TransformerConfig]:
    """The models of the named sides, in order; the default ones where none is named.

    Raises:
        ValueError: an unknown name or backend, or one side twice.
    """
    names = names or DEFAULT
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"sides: got {twice[0]!r} twice, expected each once; drop one.")
    return {name: model_config(name, shape, backend) for name in names}


def plan(
    measurement: str, configs: Mapping[str, TransformerConfig], shape: Shape, what: What
) -> Plan:
    """All models in one group, the first as the baseline.

    Args:
        measurement: how the record and its files are named.
        configs: the models by name, two at least.
        shape: of the batch.
        what: what each does.

    Raises:
        ValueError: a single model, which compares with nothing.
    """
    if len(configs) < 2:
        raise ValueError(
            f"sides: got {', '.join(configs)} alone, expected at least two; name a baseline first."
        )

    def sides() -> list[Side]:
        return [model_side(name, config, shape, what) for name, config in configs.items()]

    baseline = next(iter(configs))
    return Plan(
        measurement,
        f"{DONE[what].capitalize()}s: time and memory beside {baseline}",
        {"what": what, **dataclasses.asdict(shape)},
        [Job(DONE[what], baseline, sides)],
        {
            "": functools.partial(
                draw_ratios, quantity=TIME_RATIO, title=f"Time over that of {baseline}"
            ),
            "-flops": functools.partial(
                draw_ratios,
                quantity=TIME_OVER_FLOPS,
                title=f"Seconds per FLOP over those of {baseline}",
            ),
        },
    )
