"""The paper's scale: the settings are those that the page counts."""

import re

import compiled
import pytest
import small_run

from cem_jax.cli.sweep import config_of
from cem_jax.runs.sweep.spec import read_spec
from experiments.slimpajama import plan, rehearse


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


@pytest.mark.slow
def test_a_rehearsal_of_it_on_a_small_model(tmp_path, capfd, monkeypatch):
    text = small_run.write_text(tmp_path / "text.txt")
    for name, value in compiled.settings(tmp_path / "compiled").items():
        monkeypatch.setenv(name.upper(), str(value))
    small = "--model.dim 16 --model.layers 1 --model.attention.energy.heads 2"
    words = f"--out {tmp_path / 'out'} --source {text} --documents 12 --tokenizer train:330"
    words += " --devices 4 --steps 40 --length 16 --more"
    assert rehearse.main([*words.split(), f"{small} --model.mlp.energy.features 24"]) == 0
    printed = capfd.readouterr().out
    assert "SIGTERM to the second\n" in printed
    assert re.search(r"both ended with 0 after [0-9.]+ s, at step [0-9]+\n", printed)
    assert "the rehearsal is over" in printed
