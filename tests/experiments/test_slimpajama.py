"""The paper's scale: the settings are those that the page counts."""

import pytest

from cem_jax.cli.sweep import config_of
from cem_jax.models import TransformerConfig
from cem_jax.models.cost import count_training_flops
from cem_jax.runs.sweep.spec import read_spec
from experiments.slimpajama import plan


def test_the_page_is_up_to_date():
    text = plan.README.read_text("utf-8")
    assert plan.with_cost(text) == text, "run python -m experiments.slimpajama.plan"


def test_training_sees_twenty_tokens_for_each_parameter_of_the_llama():
    steps, batch, length = plan.steps_and_shape()
    assert steps == plan.chinchilla_steps(batch, length)
    assert steps * batch * length == pytest.approx(20 * 162.1e6, rel=1e-3)


def test_hours_by_hand():
    steps, batch, length = plan.steps_and_shape()
    config = TransformerConfig.paper("llama")
    step = count_training_flops(config, batch=1, length=length, pairs="visible") * batch
    hours = steps * step / (8 * 989.4e12 * 0.4) / 3600
    assert f"| {hours:.2f} |" in next(
        line for line in plan.table().splitlines() if line.startswith("| llama")
    )


def test_the_settings_are_options_of_cem_train():
    spec = read_spec(plan.HERE / "paper.toml")
    assert [variant.name for variant in spec.variants] == [
        "llama",
        "cem-attention",
        "cem-mlp",
        "cem",
    ]
    for variant in spec.variants:
        config = config_of(variant)
        assert config.model.dtype == "bfloat16"
        assert config.model.dim == 768
