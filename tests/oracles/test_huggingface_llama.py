"""Our Llama is Hugging Face's `LlamaForCausalLM`, given the same weights."""

import cases
import jax
import numpy as np
import pytest
import torch
from flax import nnx
from transformers import LlamaConfig, LlamaForCausalLM

from cem_jax import MHAConfig, Rotary, SwiGLUConfig, Transformer, TransformerConfig

V, D, F, H, K, N = 37, 16, 24, 4, 4, 2


def ours(groups, tied):
    return TransformerConfig(
        vocab_size=V,
        dim=D,
        layers=N,
        attention=MHAConfig(H, key_heads=groups, rotary=Rotary(base=500.0)),
        mlp=SwiGLUConfig(F),
        tie_embeddings=tied,
        norm_eps=1e-6,
    )


def theirs(groups, tied):
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=V,
            hidden_size=D,
            intermediate_size=F,
            num_hidden_layers=N,
            num_attention_heads=H,
            num_key_value_heads=groups,
            head_dim=K,
            max_position_embeddings=64,
            rope_parameters={"rope_type": "default", "rope_theta": 500.0},
            tie_word_embeddings=tied,
            rms_norm_eps=1e-6,
            attn_implementation="eager",
        )
    ).eval()


def state_dict(params):
    """Our parameters under Hugging Face's names: projections as [out, in], heads flattened."""
    attention, mlp = params["blocks"]["attention"], params["blocks"]["mlp"]
    result = {"model.embed_tokens.weight": params["embedding"]}
    for i in range(N):
        prefix = f"model.layers.{i}."
        for name, w in (("q", "wq"), ("k", "wk"), ("v", "wv")):
            result[f"{prefix}self_attn.{name}_proj.weight"] = attention[w][i].reshape(D, -1).T
        result[f"{prefix}self_attn.o_proj.weight"] = attention["wo"][i].reshape(-1, D).T
        for name in ("gate", "up", "down"):
            result[f"{prefix}mlp.{name}_proj.weight"] = mlp[name][i].T
        result[f"{prefix}input_layernorm.weight"] = attention["norm"]["gain"][i]
        result[f"{prefix}post_attention_layernorm.weight"] = mlp["norm"]["gain"][i]
    result["model.norm.weight"] = params["norm"]["gain"]
    result["lm_head.weight"] = params.get("readout", params["embedding"])
    return {name: torch.tensor(np.asarray(value)) for name, value in result.items()}


@pytest.mark.parametrize(("groups", "tied"), [(2, True), (4, False)])
def test_logits_agree(groups, tied):
    model = cases.randomize(Transformer(ours(groups, tied), rngs=nnx.Rngs(0)), scale=0.1)
    other = theirs(groups, tied)
    other.load_state_dict(state_dict(cases.split(model)[1]), strict=True)
    tokens = np.asarray(jax.random.randint(jax.random.key(0), (2, 9), 0, V))
    with torch.no_grad():
        expected = other(torch.tensor(tokens)).logits.numpy()
    np.testing.assert_allclose(jax.jit(model)(tokens), expected, rtol=1e-4, atol=1e-4)
