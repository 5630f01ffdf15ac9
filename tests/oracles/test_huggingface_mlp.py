"""One step on an element-wise energy is Hugging Face's `LlamaMLP` with down tied.

silu(gate) * up is what it computes. In the quadratic form our gate is inside phi, as theirs is:
down = up^T. In the nonlinear form phi is of u's projection, so that ours takes their gate's place:
down = gate^T.
"""

import cases
import numpy as np
import pytest
import torch
from cases import B, D, L
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP

from cem_jax import ElementwiseConfig, StepSizeConfig


@pytest.mark.parametrize("form", ["nonlinear", "quadratic"])
def test_one_step_is_a_gated_mlp_with_tied_projections(form):
    config = ElementwiseConfig(12, form)
    layer = cases.layer(config, steps=1, step_size=StepSizeConfig(1.0, "fixed"))
    mlp = LlamaMLP(LlamaConfig(hidden_size=D, intermediate_size=12, num_attention_heads=2))
    gate, up = (torch.tensor(np.asarray(w[...])) for w in (layer.energy.gate, layer.energy.up))
    inside, beside = (up, gate) if form == "nonlinear" else (gate, up)
    with torch.no_grad():
        mlp.gate_proj.weight.copy_(inside.T)
        mlp.up_proj.weight.copy_(beside.T)
        mlp.down_proj.weight.copy_(up)
    h = cases.normal("h", B, L, D)
    with torch.no_grad():
        update = mlp(torch.tensor(np.asarray(layer.norm(h)))).numpy()
    np.testing.assert_allclose(layer(h), h + update, rtol=1e-5, atol=1e-5)
