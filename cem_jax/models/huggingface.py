"""A Hugging Face folder of a Llama, read as ours: configuration and weights, with NumPy alone."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from cem_jax.models.config import TransformerConfig
from cem_jax.models.llama import MHAConfig, SwiGLUConfig
from cem_jax.models.weights import (
    Params,
    abstract_params,
    flatten,
    listed,
    open_safetensors,
    unflatten,
)
from cem_jax.ops.checks import require_positive
from cem_jax.ops.rotary import Rotary

SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
)
"""Keys of ``config.json`` that have no default."""

DEFAULTS: dict[str, Any] = {
    "model_type": None,
    "num_key_value_heads": None,
    "head_dim": None,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "rope_theta": 10_000.0,
    "rope_scaling": None,
    "rope_parameters": None,
    "partial_rotary_factor": None,
    "quantization_config": None,
}
"""What `transformers.LlamaConfig` takes for the keys that a file leaves out."""

SAME_FUNCTION: dict[str, tuple[Any, ...]] = {
    "model_type": ("llama",),
    "hidden_act": ("silu", "swish"),
    "attention_bias": (False, None),
    "mlp_bias": (False, None),
    "quantization_config": (None,),
    "rope_type": ("default", None),
    "partial_rotary_factor": (None, 1.0),
}
"""The values under which our Llama computes what theirs does."""

OUTER = {
    "model.embed_tokens.weight": "embedding",
    "model.norm.weight": "norm.gain",
    "lm_head.weight": "readout",
}
INNER = {
    "input_layernorm": "attention.norm.gain",
    "self_attn.q_proj": "attention.wq",
    "self_attn.k_proj": "attention.wk",
    "self_attn.v_proj": "attention.wv",
    "self_attn.o_proj": "attention.wo",
    "post_attention_layernorm": "mlp.norm.gain",
    "mlp.gate_proj": "mlp.gate",
    "mlp.up_proj": "mlp.up",
    "mlp.down_proj": "mlp.down",
}
"""Their names and ours, outside the blocks and in each."""

HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


def read_llama(folder: str | Path) -> tuple[TransformerConfig, Params]:
    """The model that `transformers.LlamaForCausalLM.from_pretrained` would make of a folder.

    Args:
        folder: with ``config.json`` and ``model.safetensors``, or shards of it and
            ``model.safetensors.index.json``.

    Returns:
        The configuration, with float32 products, and its parameters as NumPy arrays, bfloat16 and
        float16 widened to float32; ``jax.device_put`` places them. The longest context is not
        kept: our model has none.

    Raises:
        ValueError: a model that computes something else, or tensors that are missing, unexpected,
            or of another shape or dtype.
    """
    folder = Path(folder)
    config = llama_config(_json(folder / "config.json"))
    places, files = _places(config), _files(folder)
    where = _where(files)
    _require_names(config, where, set(places))
    abstract = flatten(abstract_params(config))
    arrays = {name: np.empty(leaf.shape, leaf.dtype) for name, leaf in abstract.items()}
    for path in files:
        with open_safetensors(path) as file:
            for name in (name for name in places if where[name] == path):
                ours, layer = places[name]
                target = arrays[ours] if layer is None else arrays[ours][layer]
                _fill(target, ours, name, file.get_tensor(name))
    if config.tie_embeddings and HEAD in where:
        _require_tied(where[HEAD], arrays["embedding"])
    return config, unflatten(arrays)


def llama_config(stored: dict[str, Any]) -> TransformerConfig:
    """Our configuration of the content of a ``config.json``.

    Raises:
        ValueError: a model that computes something else, or a size that is missing.
    """
    missing = [key for key in SIZES if key not in stored]
    if missing:
        raise ValueError(
            f"config.json: got no {listed(missing)}, expected all sizes of a Llama; take the "
            f"config.json that belongs to the weights."
        )
    values = DEFAULTS | stored
    # As transformers reads them: the older key first, and what is inside before what is outside.
    rope = values["rope_scaling"] or values["rope_parameters"] or {}
    for key in ("rope_theta", "partial_rotary_factor"):
        values[key] = rope.get(key, values[key])
    values["rope_type"] = rope.get("rope_type", rope.get("type"))
    for key, same in SAME_FUNCTION.items():
        if values[key] not in same:
            raise ValueError(
                f"config.json: got {key} = {values[key]!r}, expected {same[0]!r}; our Llama would "
                f"compute something else: choose a model without it."
            )
    for key in ("rope_theta", "rms_norm_eps"):
        # JSON has them as integers too.
        require_positive(key, values[key])
        values[key] = float(values[key])
    return TransformerConfig(
        vocab_size=values["vocab_size"],
        dim=values["hidden_size"],
        layers=values["num_hidden_layers"],
        attention=MHAConfig(
            values["num_attention_heads"],
            key_heads=values["num_key_value_heads"],
            head_dim=values["head_dim"],
            rotary=Rotary(base=values["rope_theta"]),
        ),
        mlp=SwiGLUConfig(values["intermediate_size"]),
        tie_embeddings=bool(values["tie_word_embeddings"]),
        norm_eps=values["rms_norm_eps"],
    )


def _places(config: TransformerConfig) -> dict[str, tuple[str, int | None]]:
    """Their name of every tensor, with our name and the layer."""
    places: dict[str, tuple[str, int | None]] = {name: (ours, None) for name, ours in OUTER.items()}
    if config.tie_embeddings:
        del places[HEAD]
    for layer in range(config.layers):
        for name, ours in INNER.items():
            places[f"model.layers.{layer}.{name}.weight"] = (f"blocks.{ours}", layer)
    return places


def _fill(target: np.ndarray, ours: str, name: str, tensor: np.ndarray) -> None:
    """Write a tensor of theirs into our array: projections are ``[out, in]``, heads flattened."""
    projection = target.ndim > 1 and ours.startswith("blocks.")
    expected = target.shape
    if projection:
        # The output projections have one output axis, the others one input axis.
        split = -1 if ours.endswith((".wo", ".down")) else 1
        expected = (math.prod(target.shape[split:]), math.prod(target.shape[:split]))
    if tensor.shape != expected or tensor.dtype.name not in ("float32", "bfloat16", "float16"):
        raise ValueError(
            f"{name}: got {tensor.dtype.name}{list(tensor.shape)}, expected {list(expected)} in "
            f"float32, bfloat16 or float16, as config.json says; save the model again in one of "
            f"these, or take the config.json that belongs to it."
        )
    target[...] = tensor.T.reshape(target.shape) if projection else tensor


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(
            f"{path.name}: got no such file in {path.parent} ({error.strerror}), expected the "
            f"folder of a Hugging Face model."
        ) from error
    except ValueError as error:
        raise ValueError(f"{path}: got no JSON ({error}), expected an object.") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: got {type(content).__name__}, expected an object.")
    return content


def _files(folder: Path) -> list[Path]:
    """The files of the weights, in the order in which transformers looks for them."""
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.is_file():
        return [whole]
    if not index.is_file():
        raise ValueError(
            f"weights: got neither {whole.name} nor {index.name} in {folder}, expected one of "
            f"them; save a model of another format again with model.save_pretrained(folder)."
        )
    names = sorted(set(_json(index).get("weight_map", {}).values()))
    outside = [name for name in names if Path(name).name != name]
    if outside or not names:
        raise ValueError(
            f"{index}: got {listed(outside) or 'no shards'} in weight_map, expected names of files "
            f"beside it; download it again."
        )
    return [folder / name for name in names]


def _where(files: list[Path]) -> dict[str, Path]:
    """The file of every tensor."""
    where: dict[str, Path] = {}
    for path in files:
        with open_safetensors(path) as file:
            for name in file.keys():  # noqa: SIM118 - not a dict
                if name in where:
                    raise ValueError(
                        f"{name}: got it in {where[name].name} and in {path.name}, expected it "
                        f"once; download the folder again."
                    )
                where[name] = path
    return where


def _require_names(config: TransformerConfig, got: dict[str, Path], wanted: set[str]) -> None:
    missing = sorted(wanted - set(got))
    allowed = wanted | ({HEAD} if config.tie_embeddings else set())
    # Older files hold the frequencies of the rotation too, which nobody reads any more.
    unexpected = [
        name for name in got if name not in allowed and not name.endswith("rotary_emb.inv_freq")
    ]
    found = {"no": missing, "the unexpected": unexpected}
    problems = [f"{kind} {listed(names)}" for kind, names in found.items() if names]
    if problems:
        raise ValueError(
            f"weights: got {' and '.join(problems)}, expected the tensors of a LlamaForCausalLM "
            f"as config.json says; take a folder whose weights and config.json belong together."
        )


def _require_tied(path: Path, embedding: np.ndarray) -> None:
    with open_safetensors(path) as file:
        head = file.get_tensor(HEAD)
    if not np.array_equal(head.astype(embedding.dtype), embedding):
        raise ValueError(
            f"{HEAD}: got other values than {EMBEDDING}, expected equal ones where config.json "
            f"says tie_word_embeddings; set it to false there to keep both."
        )
