"""Machines that are not here: what is asked of the compiler, and what is said where it cannot."""

import types

import pytest
from jax.experimental import topologies

from cem_jax.cli.main import main
from cem_jax.sharding.topology import topology_devices


def test_the_devices_are_those_of_the_named_slice(monkeypatch):
    asked = {}

    def describe(**named):
        asked.update(named)
        return types.SimpleNamespace(devices=(1, 2))

    monkeypatch.setattr(topologies, "get_topology_desc", describe)
    assert topology_devices("v5e:1x2") == [1, 2]
    assert asked == {"platform": "tpu", "topology_name": "v5e:1x2"}


def test_a_slice_that_nobody_can_describe_is_told_with_what_it_needs(monkeypatch):
    def fail(**named):
        raise RuntimeError("no TPU v9")

    monkeypatch.setattr(topologies, "get_topology_desc", fail)
    with pytest.raises(ValueError, match=r"got 'v9:2x4'.*no TPU v9.*pip install 'cem_jax\[tpu\]'"):
        topology_devices("v9:2x4")


def test_nothing_is_trained_on_a_machine_that_is_not_here(capsys):
    assert main(["train", "--topology", "v5e:2x4"]) == 2
    assert "expected --dry-run with it" in capsys.readouterr().err
