"""What is written comes back bit by bit, and what is no model's own is refused by name."""

import dataclasses

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from filled import noisy, transformer

from cem_jax import MemoryConfig, SumConfig, TransformerConfig
from cem_jax.models import weights
from cem_jax.models.weights import (
    flatten,
    load_metadata,
    load_weights,
    require_params,
    save_weights,
    unflatten,
)


def configuration(family="cem", **changes):
    config = TransformerConfig.tiny(family, vocab_size=16)
    return dataclasses.replace(config, dim=16, layers=2, **changes)


def test_weights_come_back_bit_by_bit_and_give_the_same_logits(tmp_path):
    config = configuration(tie_embeddings=False)
    params = noisy(config)
    save_weights(tmp_path / "model.safetensors", params, {"step": "3"})
    loaded = load_weights(tmp_path / "model.safetensors")
    require_params(config, loaded)
    assert jax.tree.structure(loaded) == jax.tree.structure(params)
    for ours, theirs in zip(jax.tree.leaves(params), jax.tree.leaves(loaded), strict=True):
        assert type(theirs) is np.ndarray
        assert np.asarray(ours).tobytes() == theirs.tobytes()
    logits = jax.jit(lambda params, tokens: transformer(config, params)(tokens))
    tokens = np.arange(6)[None]
    assert jnp.array_equal(logits(params, tokens), logits(loaded, tokens))
    assert load_metadata(tmp_path / "model.safetensors") == {"step": "3"}
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_file_may_be_read_by_those_who_may_read_others(tmp_path):
    (tmp_path / "other").touch()
    save_weights(tmp_path / "w", {"a": np.ones(3, np.float32)})
    assert (tmp_path / "w").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32", "bool"])
def test_dtypes_shapes_and_order_survive(tmp_path, dtype):
    array = cases.normal("weights", 3, 4)
    arrays = [array, array.T, array[0, 0], array[:0], array[:, 1:3]]
    params = {"a": {str(f"b{i}"): np.asarray(x).astype(dtype) for i, x in enumerate(arrays)}}
    params["a"]["view"] = np.asarray(array).astype(dtype).T
    save_weights(tmp_path / "w", params)
    loaded = load_weights(str(tmp_path / "w"))
    for name, leaf in flatten(params).items():
        got = flatten(loaded)[name]
        assert (got.dtype, got.shape) == (leaf.dtype, leaf.shape)
        np.testing.assert_array_equal(got, leaf)


def test_tied_embeddings_are_stored_once_and_names_are_paths(tmp_path):
    params = noisy(configuration())
    save_weights(tmp_path / "w", params)
    names = set(flatten(load_weights(tmp_path / "w")))
    assert {"embedding", "norm.gain", "blocks.attention.energy.wq"} <= names
    assert "readout" not in names


def test_terms_of_a_sum_keep_their_numbers(tmp_path):
    config = configuration()
    terms = SumConfig((config.attention.energy, MemoryConfig(8)))
    config = dataclasses.replace(
        config, attention=dataclasses.replace(config.attention, energy=terms)
    )
    params = noisy(config)
    assert "blocks.attention.energy.terms.1.patterns" in flatten(params)
    save_weights(tmp_path / "w", params)
    loaded = load_weights(tmp_path / "w")
    assert jax.tree.structure(loaded) == jax.tree.structure(params)
    require_params(config, loaded)


def test_params_of_another_model_are_refused_by_name():
    config = configuration()
    flat = flatten(noisy(config))
    wq = flat["blocks.attention.energy.wq"]
    moved = flat | {
        "readout": flat["embedding"],
        "embedding": flat["embedding"].astype(jnp.bfloat16),
        "blocks.attention.energy.wq": wq[:, :8],
    }
    del moved["norm.gain"]
    with pytest.raises(ValueError, match="expected those of the configuration") as error:
        require_params(config, unflatten(moved))
    message = str(error.value)
    assert "without norm.gain" in message
    assert "with readout" in message
    assert "embedding as bfloat16[16, 16], which is float32[16, 16] there" in message
    assert "wq as float32[2, 8, 4, 4], which is float32[2, 16, 4, 4] there" in message


def test_long_lists_are_cut():
    with pytest.raises(ValueError, match=r"without blocks\.\S+(, \S+){7} and \d+ more"):
        require_params(configuration(), {"embedding": np.ones((16, 16), np.float32)})


@pytest.mark.parametrize("size", [0, 4, 60, -1])
def test_cut_file_is_refused(tmp_path, size):
    path = tmp_path / "w"
    save_weights(path, {"a": np.ones((4, 4), np.float32)})
    path.write_bytes(path.read_bytes()[:size])
    for load in (load_weights, load_metadata):
        with pytest.raises(ValueError, match=r"cannot be read .*expected a whole safetensors"):
            load(path)


@pytest.mark.parametrize("name", ["nothing", "."])
def test_missing_file_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"got no file .*expected a safetensors file"):
        load_weights(tmp_path / name)


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path, params = tmp_path / "w", {"a": np.ones(3, np.float32)}
    save_weights(path, params)
    before = path.read_bytes()

    def full(self, target):
        assert self.stat().st_size > 0
        raise OSError("no space left")

    monkeypatch.setattr(weights.Path, "replace", full)
    with pytest.raises(ValueError, match=r"cannot be written .no space left"):
        save_weights(path, {"a": np.zeros(3, np.float32)})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_place_without_a_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="cannot be written"):
        save_weights(tmp_path / "no" / "w", {"a": np.ones(3, np.float32)})


@pytest.mark.usefixtures("hook_off")
def test_metadata_other_than_strings_is_refused(tmp_path):
    with pytest.raises(ValueError, match="metadata: got 'step': 3, expected strings"):
        save_weights(tmp_path / "w", {"a": np.ones(3)}, {"step": 3})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "got dict at the top"),
        ({"a": {}}, "got dict at a"),
        ({"a": {"b": None}}, r"got NoneType at a\.b"),
        ({"a": 1.0}, "got float at a"),
        ({"a": {"b": jax.eval_shape(lambda: jax.random.key(0))}}, r"got ShapeDtypeStruct at a\.b"),
        ({"a.b": 0}, "the key 'a.b' at the top"),
        ({"a": {"0": 0}}, "the key '0' at a"),
        ({"a": {"": 0}}, "the key '' at a"),
        ({"a": {-1: 0}}, "the key -1 at a"),
    ],
)
def test_trees_that_would_not_come_back_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        flatten(params)


@pytest.mark.parametrize("names", [("a", "a.b"), ("a.b", "a"), ("a", "a.b.c")])
def test_names_that_are_no_tree_are_refused(names):
    with pytest.raises(ValueError, match="expected a tree"):
        unflatten({name: np.ones(()) for name in names})
