"""Hugging Face's Llama as a peer: the same model, and what is said without PyTorch."""

import importlib.util
import sys

import common
import huggingface
import numpy as np
import peer
import pytest

from cem_jax.models.cost import count_parameters
from cem_jax.runs.benchmark.model import random_batch
from cem_jax.runs.benchmark.record import read
from cem_jax.runs.benchmark.shape import Shape
from cem_jax.runs.benchmark.sides import model_config

TINY = Shape(batch=2, length=8, vocab_size=32, dim=16, layers=2, heads=2, features=24)
PRESENT = all(importlib.util.find_spec(name) for name in peer.PACKAGES)
needs_torch = pytest.mark.skipif(not PRESENT, reason="needs pip install '.[oracles]'")


@pytest.mark.parametrize("name", peer.PACKAGES)
def test_a_missing_package_is_told_with_its_installation(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ValueError, match=r"peer: got no package .*pip install '\.\[oracles\]'"):
        huggingface.plan(huggingface.Options())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [("--pause -1", "pause: got -1"), ("--dtype bfloat16", "dtype: got bfloat16")],
)
def test_misuse_is_two_with_one_message(arguments, message, capsys):
    # What an option itself refuses, tyro tells, and ends.
    with pytest.raises(SystemExit, match="2"):
        common.start(huggingface.Options, huggingface.plan, arguments.split())
    assert message in capsys.readouterr().err


@needs_torch
def test_it_has_as_many_parameters_as_ours():
    assert peer.count(peer.llama(TINY)) == count_parameters(model_config("llama", TINY)).total


@needs_torch
def test_another_number_of_parameters_is_refused():
    with pytest.raises(ValueError, match=r"peer: got .* parameters, expected"):
        peer.peer_side("peer", model_config("cem-1", TINY), TINY, "fused", 1.0)


@needs_torch
@pytest.mark.parametrize("adamw", ["default", "foreach", "fused"])
def test_its_step_trains(adamw):
    torch, _ = peer.libraries()
    torch.manual_seed(0)
    step = peer.training_step(peer.llama(TINY), random_batch(TINY), adamw)
    losses = [step() for _ in range(20)]
    assert abs(losses[0] - np.log(32)) < 0.5
    assert losses[-1] < 0.95 * losses[0]


@needs_torch
def test_the_two_take_turns(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["huggingface.py"])
    shape = "--batch 2 --length 8 --vocab-size 32 --dim 16 --layers 2 --heads 2 --features 24"
    arguments = f"{shape} --rounds 2 --pause 0 --out {tmp_path}".split()
    assert common.start(huggingface.Options, huggingface.plan, arguments) == 0
    record = read(tmp_path / "huggingface.json")
    peer_, ours = record.groups[0].sides
    assert (peer_.name, ours.name) == ("Hugging Face", "ours")
    assert len(peer_.seconds) == len(ours.seconds) == 2
    assert peer_.figures["parameters"] == ours.figures["parameters"]
    assert record.versions["torch"]
