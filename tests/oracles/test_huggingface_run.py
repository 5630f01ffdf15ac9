"""A Llama of Hugging Face becomes a run: it generates, and starts a CEM."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import nnx
from transformers import LlamaConfig, LlamaForCausalLM

from cem_jax.cli.main import main
from cem_jax.data import ByteTokenizer
from cem_jax.runs.loading import load

TEXT = "".join(f"The state of the union, line {n}, is strong.\n" for n in range(200))


def saved_llama(folder):
    config = LlamaConfig(
        # Padded beyond the 258 pieces of the byte tokenizer.
        vocab_size=264,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).eval()
    model.save_pretrained(folder)
    return model


def test_the_imported_llama_is_the_same_and_a_cem_starts_from_it(tmp_path, capsys):
    theirs, run, cem = saved_llama(tmp_path / "hf"), tmp_path / "run", tmp_path / "cem"
    line = ["import", str(tmp_path / "hf"), "--tokenizer", "byte"]
    assert main([*line, "--to", str(run)]) == 0
    loaded = load(run)
    tokens = np.array([ByteTokenizer().document("The state")])
    with torch.no_grad():
        expected = theirs(torch.tensor(tokens)).logits.numpy()
    logits = nnx.merge(loaded.graph, loaded.params)(jnp.asarray(tokens))
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
    assert main(["generate", str(run), "The state", "--tokens", "5"]) == 0
    assert "The state" in capsys.readouterr().out

    assert main([*line, "--to", str(cem), "--model", "cem"]) == 0
    printed = capsys.readouterr().out
    assert "dropped" in printed
    assert "not the Llama's function any more" in printed
    (tmp_path / "text.txt").write_text(TEXT)
    out = tmp_path / "out"
    start = ["train", "--start", str(cem), "--data", str(tmp_path / "text.txt"), "--out", str(out)]
    assert main([*start, "--steps", "2", "--batch", "2", "--length", "16"]) == 0
    summary = json.loads((out / "summary.json").read_text())
    assert summary["name"] == "cem"
    assert summary["parameters"] == sum(np.size(leaf) for leaf in jax.tree.leaves(load(cem).params))
