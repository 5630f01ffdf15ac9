import dataclasses

import pytest

from cem_jax import Recipe, StepSizeConfig, TransformerConfig
from cem_jax.runs.loading import with_inner_steps


def test_other_inner_steps_for_every_cem_layer():
    model = with_inner_steps(TransformerConfig.tiny("cem"), 5)
    assert model.attention.descent.steps == model.mlp.descent.steps == 5
    mixed = with_inner_steps(TransformerConfig.tiny("cem-mlp", Recipe(steps=2)), 4)
    assert mixed.mlp.descent.steps == 4
    assert mixed.attention == TransformerConfig.tiny("cem-mlp").attention


def test_a_llama_takes_no_inner_steps():
    with pytest.raises(ValueError, match="got 2 for a model without CEM layers"):
        with_inner_steps(TransformerConfig.tiny("llama"), 2)


def test_step_sizes_that_were_learned_step_by_step_fix_their_number():
    model = TransformerConfig.tiny("cem")
    descent = dataclasses.replace(model.attention.descent, step_size=StepSizeConfig(learn="step"))
    model = dataclasses.replace(
        model, attention=dataclasses.replace(model.attention, descent=descent)
    )
    with pytest.raises(ValueError, match="which learned a step size for each of its 2 steps"):
        with_inner_steps(model, 3)
    assert with_inner_steps(model, 2) == model
