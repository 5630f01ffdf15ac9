"""A dry run: the figures of a step that is compiled and not run."""

import dataclasses

import pytest
from jax.sharding import AbstractMesh

from cem_jax import TransformerConfig
from cem_jax.cli.main import main
from cem_jax.runs import DataConfig, RunConfig
from cem_jax.runs.dry_run import DryRun, dry_run, told
from cem_jax.runs.trainable import require_placeable
from cem_jax.sharding import Layout, MeshShape
from cem_jax.sharding.collectives import Traffic
from cem_jax.training import AdamWConfig, TrainingConfig

SMALL = TransformerConfig.micro("llama", vocab_size=64)
RUN = RunConfig(
    name="llama",
    model=dataclasses.replace(SMALL, layers=1),
    training=TrainingConfig(steps=3, batch=2, length=16, optimiser=AdamWConfig()),
    data=DataConfig(),
)


def test_a_step_on_one_device_holds_its_state_and_sends_nothing():
    found = dry_run(RUN, Layout.of())
    assert found.devices == 1
    # Parameters and two moments in float32, the step and Adam's two counts in int32.
    assert found.state_bytes == 4 * (3 * found.parameters + 3)
    # Inputs, targets, positions and segments, and a mask of bytes.
    assert found.argument_bytes == found.state_bytes + 2 * 16 * (4 * 4 + 1)
    assert found.temporary_bytes > 0
    assert found.traffic == {}
    assert "nothing is sent between devices" in told(found, "single")


def test_a_mesh_that_parameters_do_not_divide_is_refused_before_any_work():
    """Heads are four; no device is needed to see it."""
    sizes = MeshShape(tensor=3).sizes
    mesh = AbstractMesh(tuple(sizes.values()), tuple(sizes))
    with pytest.raises(ValueError, match=r"got tensor=3 for the axis . of blocks/attention"):
        require_placeable(RUN, Layout(mesh))
    require_placeable(RUN, Layout.of())


def test_what_is_said_has_units():
    traffic = {"all-reduce": Traffic(3, 2_500_000)}
    found = DryRun(8, 1_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000_000, traffic)
    assert told(found, "data=8").splitlines() == [
        "8 devices (data=8), 1,000 parameters, 5.00 GFLOP a step",
        "on each device: 3.0 MB of arguments (2.0 MB of state) and 4.0 MB of temporary memory",
        "all-reduce: 3 a step, 2.5 MB on each device",
    ]


def test_the_command_shows_it_and_trains_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = "--model llama --preset micro --model.layers 1 --tokenizer byte --steps 2 --batch 2"
    assert main(["train", *words.split(), "--length", "16", "--dry-run"]) == 0
    assert "1 device (single)" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
