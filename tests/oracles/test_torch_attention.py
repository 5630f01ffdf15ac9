"""One step on the interaction energy is `torch.nn.MultiheadAttention` with tied weights."""

import cases
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from cases import B, D, L

from cem_jax import InteractionConfig, Rotary, StepSizeConfig


@pytest.mark.parametrize("steps", [1, 2])
def test_one_step_is_multihead_attention(steps):
    """In_proj = [Wq, Wk, Wk] and out_proj = Wq^T; a second step queries again, same keys."""
    layer = cases.layer(
        InteractionConfig(2, rotary=Rotary(fraction=0.0)),
        steps=steps,
        step_size=StepSizeConfig(1.0, "fixed"),
    )
    query, key = (
        torch.tensor(np.asarray(w[...]).reshape(D, D).T) for w in (layer.energy.wq, layer.energy.wk)
    )
    attention = torch.nn.MultiheadAttention(D, 2, bias=False, batch_first=True)
    with torch.no_grad():
        attention.in_proj_weight.copy_(torch.cat([query, key, key]))
        attention.out_proj.weight.copy_(query.T)
    h = cases.normal("h", B, L, D)
    context = torch.tensor(np.asarray(layer.norm(h)))
    future = torch.triu(torch.ones(L, L, dtype=torch.bool), diagonal=1)
    x = h
    for _ in range(steps):
        u = torch.tensor(np.asarray(layer.norm(x)))
        with torch.no_grad():
            update, _ = attention(u, context, context, attn_mask=future, need_weights=False)
        x = x + jnp.asarray(update.numpy())
    np.testing.assert_allclose(layer(h), x, rtol=1e-5, atol=1e-5)
