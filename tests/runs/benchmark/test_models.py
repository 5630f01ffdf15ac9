"""The sides by name: what they stand for, and that they run."""

import dataclasses
from typing import get_args

import pytest

from cem_jax import InteractionConfig, Recipe, TransformerConfig
from cem_jax.evaluation.hand_written import HandWrittenConfig
from cem_jax.models.cost import count_forward_flops
from cem_jax.ops.attention_backend import AttentionBackend
from cem_jax.runs.benchmark.comparison import plan, side_configs
from cem_jax.runs.benchmark.explain import explain
from cem_jax.runs.benchmark.model import model_side, random_batch
from cem_jax.runs.benchmark.product import product_side
from cem_jax.runs.benchmark.shape import Shape
from cem_jax.runs.benchmark.sides import DEFAULT, model_config

TINY = Shape(batch=2, length=8, vocab_size=32, dim=16, layers=1, heads=2, features=24)


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_the_default_shape_is_the_preset(steps):
    bare = Recipe(steps, "none", None)
    assert model_config(f"cem-{steps}", Shape()) == TransformerConfig.small("cem", Recipe(steps))
    assert model_config(f"cem-{steps}-bare", Shape()) == TransformerConfig.small("cem", bare)
    assert model_config("llama", Shape()) == TransformerConfig.small("llama")


def test_every_name_reaches_its_layers():
    hand, plain, cem = (model_config(name, TINY) for name in ("hand-2", "plain-2", "cem-2"))
    assert isinstance(hand.attention, HandWrittenConfig)
    assert isinstance(hand.mlp, HandWrittenConfig)
    assert (hand.attention.layer, hand.mlp.layer) == (cem.attention, cem.mlp)
    assert plain.attention.energy == InteractionConfig(2, diagonal="shared", backend="plain")
    assert plain.mlp == cem.mlp
    chosen = model_config("cem-2", TINY, backend="plain")
    assert chosen == plain


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("cem",), "sides: got 'cem', expected llama, or cem-T"),
        (("cem-0",), "sides: got 'cem-0'"),
        (("lama",), "Did you mean llama?"),
        (("llama-bare",), "sides: got 'llama-bare'"),
        (("llama", "cem-1", "llama"), "sides: got 'llama' twice"),
    ],
)
def test_other_names_are_refused(names, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        side_configs(names, TINY)


def test_impossible_shapes_and_backends_are_refused(hook_off):
    with pytest.raises(ValueError, match="heads: got 3 for width 16"):
        Shape(dim=16, heads=3)
    with pytest.raises(ValueError, match="layers: got 0"):
        Shape(layers=0)
    with pytest.raises(ValueError, match="dtype: got 'float16'"):
        Shape(dtype="float16")
    with pytest.raises(ValueError, match="backend: got 'flash'"):
        side_configs(("cem-1",), TINY, "flash")
    with pytest.raises(ValueError, match="sides: got llama alone"):
        plan("bench", side_configs(("llama",), TINY), TINY, "step")


def test_no_names_are_the_default_ones():
    assert tuple(side_configs((), TINY)) == DEFAULT


@pytest.mark.parametrize("what", ["forward", "step"])
def test_a_model_runs_and_says_its_figures(what):
    config = model_config("llama", TINY)
    side = model_side("llama", config, TINY, what)
    side.run()
    side.run()
    forward = count_forward_flops(config, batch=2, length=8)
    assert side.figures["flops"] == forward * (3 if what == "step" else 1)
    assert side.figures["parameters"] == 32 * 16 + 4 * 16**2 + 3 * 16 * 24 + 3 * 16
    assert side.figures["temporary_bytes"] > 0


def test_a_batch_is_whole_rows_of_pieces():
    batch = random_batch(TINY)
    assert batch.inputs.shape == batch.targets.shape == (2, 8)
    assert bool(batch.mask.all())
    assert 0 <= int(batch.inputs.min()) < int(batch.inputs.max()) < 32
    assert (batch.inputs[:, 1:] == batch.targets[:, :-1]).all()


def test_a_product_says_its_flops():
    side = product_side(size=16)
    side.run()
    assert side.figures == {"flops": 2 * 16**3}


def test_the_backend_is_explained():
    chosen, *others = explain(model_config("plain-2", TINY), TINY)
    assert chosen.startswith("plain ('plain' in the config)")
    names = [name for name in get_args(AttentionBackend) if name != "auto"]
    assert [line.split()[0] for line in others] == names
    assert explain(model_config("cem-2", TINY), TINY)[0].startswith("reference ('auto'")
    long = dataclasses.replace(TINY, length=4096)
    assert explain(model_config("cem-2", long), long)[0].startswith("blockwise ('auto'")


def test_where_there_is_no_backend_that_is_said():
    assert "no backend" in explain(model_config("llama", TINY), TINY)[0]
    assert "by hand" in explain(model_config("hand-2", TINY), TINY)[0]
