import dataclasses
import json

import optax
import pytest

from cem_jax import (
    CEMConfig,
    DescentConfig,
    ElementwiseConfig,
    InteractionConfig,
    Recipe,
    TransformerConfig,
)
from cem_jax.energies import ContextScoreConfig, EnergyOf, MemoryConfig, SumConfig
from cem_jax.runs import DataConfig, RunConfig
from cem_jax.runs.described import completed, describe, differences, rebuild
from cem_jax.runs.user_energy import load_energy
from cem_jax.training import AdamWConfig, MuonConfig, ScheduleConfig, TrainingConfig

CEM = TransformerConfig.tiny("cem", Recipe(steps=3, diagonal="head"))
RICH = CEMConfig(InteractionConfig(4, relative_bias=8, context_score=ContextScoreConfig(4)))
SUM = CEMConfig(SumConfig((InteractionConfig(2), ElementwiseConfig(24), MemoryConfig(8))))


@pytest.mark.parametrize(
    "config",
    [
        RunConfig("cem", CEM, TrainingConfig(optimiser=AdamWConfig(clip=float("inf")))),
        RunConfig("llama", TransformerConfig.paper("llama"), data=DataConfig("x", "byte")),
        RunConfig("rich", dataclasses.replace(CEM, attention=RICH), start="elsewhere"),
        RunConfig(
            "sum",
            dataclasses.replace(CEM, attention=SUM),
            TrainingConfig(optimiser=MuonConfig(schedule=ScheduleConfig("wsd"))),
        ),
    ],
    ids=lambda config: config.name,
)
def test_what_is_described_is_rebuilt(config):
    assert rebuild(json.loads(json.dumps(describe(config)))) == config


def test_what_only_python_can_give_is_refused():
    own = dataclasses.replace(CEM, attention=CEMConfig(EnergyOf(lambda dim, rngs: None)))
    with pytest.raises(ValueError, match="got a description of 'EnergyOf', expected one of"):
        rebuild(describe(own))
    rule = CEMConfig(ElementwiseConfig(24), transformation=optax.clip(1.0))
    with pytest.raises(ValueError, match="which was given in Python"):
        rebuild(describe(dataclasses.replace(CEM, mlp=rule)))


def test_a_description_of_another_version_is_refused():
    described = describe(DescentConfig()) | {"inertia": 0.5}
    with pytest.raises(ValueError, match=r"got the fields \['inertia'\] of DescentConfig"):
        rebuild(described)


def test_a_users_energy_must_be_the_file_that_it_was(tmp_path):
    file = tmp_path / "own.py"
    source = "from cem_jax import Energy\nclass Own(Energy):\n    pass\n"
    file.write_text(source)
    config = CEMConfig(load_energy(f"{file}:Own"))
    described = json.loads(json.dumps(describe(config)))
    assert rebuild(described) == config
    file.write_text(source + "# changed\n")
    with pytest.raises(ValueError, match="whose file was changed since the run"):
        rebuild(described)


def test_a_field_that_there_was_not_yet_is_at_its_default():
    """As a run tells it that was begun before a class had got this field."""
    new = json.loads(json.dumps(describe(DescentConfig(steps=3))))
    old = {key: value for key, value in new.items() if key not in ("momentum", "step_size")}
    assert old != new == completed(old)
    assert completed({"layers": [old]}) == {"layers": [new]}
    assert rebuild(old) == DescentConfig(steps=3)
    own = {"type": "UserEnergy", "spec": "own.py:Own"}
    assert completed(own) == own


def test_differences_are_named_by_their_path():
    one, other = {"a": {"b": 1, "c": [1]}, "d": 2}, {"a": {"b": 1, "c": [2]}, "e": 3}
    assert differences(one, one) == []
    assert differences(one, other) == [
        "a.c: [1] there, [2] asked",
        "d: 2 there, None asked",
        "e: None there, 3 asked",
    ]
