"""The paper's scale: the settings are those that the page counts."""

import pytest

from cem_jax.cli.sweep import config_of
from cem_jax.runs.sweep.spec import read_spec
from experiments.slimpajama import plan


def test_the_page_is_up_to_date():
    text = plan.README.read_text("utf-8")
    assert plan.with_cost(text) == text, "run python -m experiments.slimpajama.plan"


def test_training_sees_twenty_tokens_for_each_parameter_of_the_llama():
    steps, batch, length = plan.steps_and_shape()
    assert steps == plan.chinchilla_steps(batch, length)
    assert steps * batch * length == pytest.approx(20 * 162.1e6, rel=1e-3)


def test_flops_and_hours_by_hand():
    """The products of the Llama, and half of all pairs of positions, three times for training."""
    steps, batch, length = plan.steps_and_shape()
    weights = 12 * (4 * 768 * 768 + 3 * 768 * 2048) + 50_257 * 768
    pairs = 12 * 2 * 768 * (length + 1) / 2
    flops = 3 * 2 * (weights + pairs) * steps * batch * length
    line = next(line for line in plan.table().splitlines() if line.startswith("| llama"))
    assert f"| {flops:.2e} |" in line
    assert f"| {flops / (8 * 989.4e12 * 0.4) / 3600:.2f} |" in line


def test_the_settings_are_options_of_cem_train():
    spec = read_spec(plan.HERE / "paper.toml")
    cem = [f"{name}-t{steps}" for name in ("cem-attention", "cem-mlp", "cem") for steps in (1, 2)]
    assert [variant.name for variant in spec.variants] == ["llama", *cem]
    for variant in spec.variants:
        config = config_of(variant)
        assert config.model.dtype == "bfloat16"
        assert config.model.dim == 768
