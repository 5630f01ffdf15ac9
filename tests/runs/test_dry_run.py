"""A dry run: the figures of a step that is compiled and not run."""

import dataclasses

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, Mesh

from cem_jax import TransformerConfig
from cem_jax.cli.main import main
from cem_jax.runs import DataConfig, RunConfig
from cem_jax.runs.dry_run import DryRun, dry_run, told
from cem_jax.runs.trainable import require_placeable
from cem_jax.sharding import Layout, MeshShape
from cem_jax.sharding.collectives import Traffic
from cem_jax.sharding.mesh import AXES
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


def test_micro_batches_take_less_memory_and_as_much_work():
    """An eighth of the rows at a time, and one more set of gradients: 0.18 of it."""
    found = {}
    for accumulate in (1, 8):
        training = dataclasses.replace(RUN.training, batch=8, length=64, accumulate=accumulate)
        found[accumulate] = dry_run(dataclasses.replace(RUN, training=training), Layout.of())
    whole, cut = found[1], found[8]
    assert cut.temporary_bytes < 0.3 * whole.temporary_bytes
    assert (cut.flops, cut.argument_bytes) == (whole.flops, whole.argument_bytes)


def test_micro_batches_that_a_mesh_does_not_divide_are_refused_before_any_work():
    sizes = MeshShape(data=2).sizes
    mesh = AbstractMesh(tuple(sizes.values()), tuple(sizes))
    require_placeable(RUN, Layout(mesh))
    training = dataclasses.replace(RUN.training, accumulate=2)
    with pytest.raises(
        ValueError, match=r"data=2 .* for the axis B of a micro-batch \(batch 2 / acc"
    ):
        require_placeable(dataclasses.replace(RUN, training=training), Layout(mesh))


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


def test_what_xla_for_cpus_cannot_compile_is_refused_with_what_helps(monkeypatch):
    """It would abort the process; two names of one device are enough to see it."""
    device = np.array(jax.devices()[0])
    mesh = Mesh(np.broadcast_to(device, (2, 1, 1, 1)), AXES)
    narrow = dataclasses.replace(RUN, model=dataclasses.replace(RUN.model, dtype="bfloat16"))
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    with pytest.raises(ValueError, match=r"bfloat16 on 2 devices of a CPU.*XLA_FLAGS=--xla_dis"):
        require_placeable(narrow, Layout(mesh))
    require_placeable(narrow, Layout.of())
    require_placeable(RUN, Layout(mesh))
    monkeypatch.setenv("XLA_FLAGS", "--a --xla_disable_hlo_passes=all-reduce-promotion")
    require_placeable(narrow, Layout(mesh))
