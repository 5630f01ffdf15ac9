"""A folder that transformers wrote is read as the same function, or refused."""

import dataclasses
import json

import jax
import ml_dtypes
import numpy as np
import pytest
import torch
from attended import probabilities
from filled import filled, transformer
from safetensors.numpy import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

from cem_jax.models.huggingface import llama_config, read_llama
from cem_jax.models.llama_to_cem import cem_config_from_llama, cem_from_llama
from cem_jax.models.weights import (
    load_weights,
    require_params,
    save_weights,
)

V, D, F, H, N = 37, 16, 24, 4, 2
LENGTH = 9

CASES = {
    "grouped, tied": {"num_key_value_heads": 2, "tie_word_embeddings": True},
    "wide heads, another base": {
        "head_dim": 10,
        "rms_norm_eps": 1e-3,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
    },
}


@pytest.fixture(scope="module", autouse=True)
def _no_progress_bar():
    logging.disable_progress_bar()
    yield
    logging.enable_progress_bar()


def theirs(**options):
    """A random model, all of its parameters noisy."""
    torch.manual_seed(0)
    sizes = {"vocab_size": V, "hidden_size": D, "intermediate_size": F, "num_hidden_layers": N}
    common = {"num_attention_heads": H, "max_position_embeddings": 64}
    config = LlamaConfig(**sizes, **common, attn_implementation="eager", **options)
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def saved(folder, **options):
    theirs(**options).save_pretrained(folder)
    return folder


def edit(folder, **changes):
    """Change keys of config.json; None takes one out."""
    path = folder / "config.json"
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))


def resave(folder, change):
    """Change the dict of tensors."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, {"format": "pt"})


def tokens():
    return np.random.default_rng(0).integers(0, V, (2, LENGTH), np.int32)


def ours(config, params):
    return jax.jit(transformer(config, params))(tokens())


def agree(folder, model):
    config, params = read_llama(folder)
    require_params(config, params)
    with torch.no_grad():
        expected = model(torch.tensor(tokens())).logits.float().numpy()
    np.testing.assert_allclose(ours(config, params), expected, rtol=1e-4, atol=1e-4)
    return config, params


@pytest.mark.parametrize("name", CASES)
def test_logits_agree(tmp_path, name):
    model = theirs(**CASES[name])
    model.save_pretrained(tmp_path)
    config, params = agree(tmp_path, model)
    save_weights(tmp_path / "ours", params)
    again = load_weights(tmp_path / "ours")
    assert jax.tree.all(jax.tree.map(lambda a, b: a.tobytes() == b.tobytes(), params, again))
    np.testing.assert_array_equal(ours(config, again), ours(config, params))


def test_shards_are_one_model(tmp_path):
    model = theirs()
    model.save_pretrained(tmp_path / "whole")
    model.save_pretrained(tmp_path / "shards", max_shard_size="2KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 3
    (config, whole), (same, shards) = (read_llama(tmp_path / n) for n in ("whole", "shards"))
    assert config == same
    assert jax.tree.all(jax.tree.map(np.array_equal, whole, shards))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_weights_are_widened_exactly(tmp_path, dtype):
    model = theirs(num_key_value_heads=2).to(dtype)
    model.save_pretrained(tmp_path)
    _, params = agree(tmp_path, model.to(torch.float32))
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {np.dtype("float32")}


def test_older_config_is_read_as_transformers_does(tmp_path):
    model = theirs(rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    model.save_pretrained(tmp_path)
    new, _ = read_llama(tmp_path)
    defaults = ("num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps", "mlp_bias")
    gone = dict.fromkeys((*defaults, "attention_bias", "tie_word_embeddings"))
    edit(tmp_path, rope_parameters=None, rope_theta=500, **gone)
    old, _ = agree(tmp_path, LlamaForCausalLM.from_pretrained(tmp_path).eval())
    same = {"attention": new.attention, "norm_eps": 1e-6, "tie_embeddings": False}
    assert same == {name: getattr(new, name) for name in same}
    assert old.attention.rotary == new.attention.rotary
    stored = json.loads((tmp_path / "config.json").read_text())
    for extra, base in [
        ({}, 500.0),
        ({"rope_scaling": {"type": "default", "rope_theta": 7.0}}, 7.0),
        ({"rope_scaling": {"type": "default"}}, 500.0),
        ({"rope_scaling": None, "rope_parameters": {"rope_theta": 9.0}}, 9.0),
        ({"rope_scaling": {"rope_theta": 7.0}, "rope_parameters": {"rope_theta": 9.0}}, 7.0),
        ({"rope_theta": 10_000.0}, 10_000.0),
    ]:
        assert llama_config(stored | extra).attention.rotary.base == base
        reference = LlamaConfig.from_dict(json.loads(json.dumps(stored | extra)))
        assert reference.rope_parameters["rope_theta"] == base


def test_old_frequencies_and_a_second_copy_of_the_tied_head_are_passed_over(tmp_path):
    saved(tmp_path, tie_word_embeddings=True)
    expected = read_llama(tmp_path)[1]

    def change(tensors):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(2, np.float32)

    resave(tmp_path, change)
    assert jax.tree.all(jax.tree.map(np.array_equal, read_llama(tmp_path)[1], expected))
    resave(tmp_path, lambda tensors: tensors["lm_head.weight"].__imul__(2))
    with pytest.raises(ValueError, match=r"lm_head.weight: got other values"):
        read_llama(tmp_path)
    edit(tmp_path, tie_word_embeddings=False)
    assert "readout" in read_llama(tmp_path)[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mistral"}, "got model_type = 'mistral', expected 'llama'"),
        ({"model_type": None}, "got model_type = None"),
        ({"attention_bias": True}, "got attention_bias = True, expected False"),
        ({"mlp_bias": True}, "got mlp_bias = True"),
        ({"hidden_act": "gelu"}, "got hidden_act = 'gelu', expected 'silu'"),
        ({"quantization_config": {"bits": 4}}, "got quantization_config = {'bits': 4}"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "got rope_type = 'llama3', expected 'def"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "got rope_type = 'linear'"),
        ({"partial_rotary_factor": 0.5}, "got partial_rotary_factor = 0.5"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "got partial_rotary_factor = 0.5"),
        ({"hidden_size": None, "vocab_size": None}, "got no vocab_size, hidden_size"),
        ({"num_hidden_layers": 3}, r"got no model\.layers\.2\.\S+(, \S+){7} and 1 more, expected"),
        ({"num_hidden_layers": 1}, r"got the unexpected model\.layers\.1\."),
        ({"tie_word_embeddings": True}, "lm_head.weight: got other values"),
        (
            {"intermediate_size": 12},
            r"gate_proj.weight: got float32\[24, 16\], expected \[12, 16\]",
        ),
        ({"num_key_value_heads": 2}, r"k_proj.weight: got float32\[16, 16\], expected \[8, 16\]"),
        ({"num_attention_heads": 0}, "heads: got 0"),
        ({"rope_theta": "big", "rope_parameters": None}, "rope_theta: got 'big'"),
    ],
)
def test_config_that_is_not_ours_is_refused(folder, tmp_path, changes, message):
    (tmp_path / "model.safetensors").symlink_to(folder / "model.safetensors")
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    edit(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        read_llama(tmp_path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("llama"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("model.norm.weight"), r"got no model\.norm\.weight, expected"),
        (lambda t: t.update(score=np.ones(2)), "got the unexpected score, expected"),
        (
            lambda t: t.update({"model.norm.weight": np.ones(D)}),
            r"model\.norm\.weight: got float64\[16\]",
        ),
        (
            lambda t: t.update({"model.norm.weight": np.ones(3, ml_dtypes.bfloat16)}),
            r"model\.norm\.weight: got bfloat16\[3\], expected \[16\]",
        ),
    ],
)
def test_tensors_that_are_not_a_llamas_are_refused(tmp_path, change, message):
    resave(saved(tmp_path), change)
    with pytest.raises(ValueError, match=message):
        read_llama(tmp_path)


def test_broken_folders_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"config.json: got no such file in"):
        read_llama(tmp_path)
    theirs().save_pretrained(tmp_path, max_shard_size="4KB")
    index = tmp_path / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    first, second, *_ = sorted(set(content["weight_map"].values()))
    whole = (tmp_path / first).read_bytes()
    (tmp_path / first).write_bytes(whole[:-5])
    with pytest.raises(ValueError, match=f"{first}, which cannot be read"):
        read_llama(tmp_path)
    (tmp_path / first).write_bytes((tmp_path / second).read_bytes())
    with pytest.raises(ValueError, match=f"got it in {first} and in {second}, expected it once"):
        read_llama(tmp_path)
    (tmp_path / first).unlink()
    with pytest.raises(ValueError, match=f"got no file .*{first}"):
        read_llama(tmp_path)
    index.write_text(json.dumps({"weight_map": {"a": "../elsewhere.safetensors"}}))
    with pytest.raises(ValueError, match=r"got \.\./elsewhere\.safetensors in weight_map"):
        read_llama(tmp_path)
    index.write_text("{}")
    with pytest.raises(ValueError, match="got no shards in weight_map"):
        read_llama(tmp_path)
    index.unlink()
    with pytest.raises(ValueError, match=r"neither model.safetensors nor .*save_pretrained"):
        read_llama(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"config.json: got list, expected an object"):
        read_llama(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config.json: got no JSON"):
        read_llama(tmp_path)


def test_a_cem_from_it_attends_in_its_first_layer_as_transformers_does(tmp_path):
    model = theirs(num_key_value_heads=2, head_dim=6)
    model.save_pretrained(tmp_path)
    with torch.no_grad():
        expected = model(torch.tensor(tokens()), output_attentions=True).attentions[0].numpy()
    llama, params = read_llama(tmp_path)
    target = cem_config_from_llama(llama)
    energy = dataclasses.replace(target.attention.energy, relative_bias=LENGTH)
    attention = dataclasses.replace(target.attention, energy=energy)
    target = dataclasses.replace(target, attention=attention)
    start = cem_from_llama(llama, params, target).params
    first = jax.tree.map(lambda leaf: leaf[0], start["blocks"]["attention"])
    options = {"norm_eps": llama.norm_eps, "dtype": "float32"}
    layer = filled(lambda rngs: attention.build(D, rngs=rngs, **options), first)
    found = probabilities(layer, jax.device_put(start["embedding"][tokens()]))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
