"""A CEM that starts from a Llama's weights, as far as they have a place in it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, NamedTuple, get_args

import jax
import numpy as np
from flax import nnx

from cem_jax.energies import ElementwiseConfig, InteractionConfig
from cem_jax.models.config import Recipe, TransformerConfig, preset_descents
from cem_jax.models.layer import CEMConfig
from cem_jax.models.llama import MHAConfig, SwiGLUConfig
from cem_jax.models.transformer import Transformer
from cem_jax.models.weights import Params, abstract_params, flatten, require_params, unflatten
from cem_jax.ops.checks import head_width, require_one_of

FromLlama = Literal["llama", "cem-attention", "cem-mlp", "cem"]
"""What a Llama becomes: the families of the paper's energies, whose sizes are a Llama's."""


class CEMStart(NamedTuple):
    """A CEM's parameters, and what became of the Llama's.

    Attributes:
        params: of the CEM, as NumPy arrays on the host; ``jax.device_put`` places them.
        dropped: the Llama's parameters that have no place in it, under their names, with counts.
        fresh: the CEM's parameters that the Llama lacks, likewise.
    """

    params: Params
    dropped: dict[str, int]
    fresh: dict[str, int]


def cem_config_from_llama(
    llama: TransformerConfig, family: FromLlama = "cem", recipe: Recipe | None = None
) -> TransformerConfig:
    """The CEM of a Llama's sizes, heads, rotation and visibility, by the presets' rules.

    Args:
        llama: with `MHAConfig` and `SwiGLUConfig`.
        family: which sublayers become CEM layers.
        recipe: of these; see `Recipe`.

    Raises:
        ValueError: another family, or a configuration that is no Llama's.
    """
    require_one_of("family", family, get_args(FromLlama))
    heads, gated = _require_llama(llama)
    recipe = Recipe() if recipe is None else recipe
    for_attention, for_mlp = preset_descents(recipe, llama.layers)
    replaced: dict[str, Any] = {}
    if family in ("cem", "cem-attention"):
        shared = {f.name: getattr(heads, f.name) for f in dataclasses.fields(heads)}
        energy = InteractionConfig(**shared, diagonal=recipe.diagonal)
        replaced["attention"] = CEMConfig(energy, for_attention)
    if family in ("cem", "cem-mlp"):
        replaced["mlp"] = CEMConfig(ElementwiseConfig(gated.features), for_mlp)
    return dataclasses.replace(llama, remat=recipe.remat, **replaced)


def cem_from_llama(
    llama: TransformerConfig, params: Params, target: TransformerConfig, *, seed: int = 0
) -> CEMStart:
    """A start for training a CEM from a Llama. It is lossy: not the Llama's function.

    Kept: embedding, readout, all norms; W_Q and W_K, which give the same attention probabilities
    for the same input (with a context score, which starts random, others); the gate and the up
    projection, which give the same hidden features: in the quadratic form as they are, in the
    nonlinear form, whose activation stands on Wu u, exchanged: Wu is the Llama's gate and Wg its
    up projection.

    Lost: W_V and W_O, since the gradient of (2) reads the rotated keys out through W_Q^T; and the
    down projection, since that of (6) reads out through Wu^T: half of a Llama's attention and a
    third of its MLP. What a layer writes is therefore new from the first one on, and training
    must repair it. eta, P, d and context terms are fresh.

    Args:
        llama: the configuration of ``params``.
        params: the Llama's.
        target: of `cem_config_from_llama`, or any that agrees with ``llama`` in all that the kept
            weights mean. A sublayer may stay the Llama's own.
        seed: of the fresh parameters, which are those of a fresh ``target``.

    Raises:
        ValueError: parameters that are not the Llama's, or a target in which they would mean
            something else.

    Source: ours.
    """
    require_params(llama, params)
    _require_target(llama, target)
    given = flatten(params)
    moved = {_name(name, target): name for name in given}
    wanted = flatten(abstract_params(target))
    fresh = [name for name in wanted if name not in moved]
    taken = {name: np.asarray(given[moved[name]]) for name in wanted if name in moved}
    sizes = {name: math.prod(leaf.shape) for name, leaf in (given | wanted).items()}
    start = unflatten(taken | _fresh(target, fresh, seed))
    require_params(target, start)
    dropped = [name for place, name in moved.items() if place not in wanted]
    return CEMStart(start, *({name: sizes[name] for name in names} for names in (dropped, fresh)))


def _name(name: str, target: TransformerConfig) -> str:
    """Where a parameter of the Llama goes; a name that the target lacks if it has no place."""
    top, *rest = name.split(".")
    if top != "blocks" or rest[1] == "norm":
        return name
    sublayer, *inner = rest
    config = getattr(target, sublayer)
    if not isinstance(config, CEMConfig):
        return name
    energy: Any = config.energy
    if sublayer == "mlp" and energy.form == "nonlinear":
        inner = [{"gate": "up", "up": "gate"}.get(word, word) for word in inner]
    return ".".join(["blocks", sublayer, "energy", *inner])


def _fresh(target: TransformerConfig, names: list[str], seed: int) -> dict[str, np.ndarray]:
    """Some parameters of a fresh model; the others are never computed."""

    def create() -> dict[str, jax.Array]:
        model = Transformer(target, rngs=nnx.Rngs(seed))
        flat = flatten(nnx.to_pure_dict(nnx.state(model, nnx.Param)))
        return {name: flat[name] for name in names}

    return {name: np.asarray(leaf) for name, leaf in jax.jit(create)().items()}


def _require_llama(config: TransformerConfig) -> tuple[MHAConfig, SwiGLUConfig]:
    attention, mlp = config.attention, config.mlp
    if not isinstance(attention, MHAConfig) or not isinstance(mlp, SwiGLUConfig):
        raise ValueError(
            f"llama: got the sublayers {type(attention).__name__} and {type(mlp).__name__}, "
            f"expected MHAConfig and SwiGLUConfig; give the configuration of a Llama."
        )
    return attention, mlp


def _require_target(llama: TransformerConfig, target: TransformerConfig) -> None:
    heads, gated = _require_llama(llama)
    for name in ("vocab_size", "dim", "layers", "loops", "tie_embeddings", "norm_eps"):
        _require_equal("target", name, getattr(target, name), getattr(llama, name))
    if target.attention != heads:
        energy = _energy("attention", target.attention, InteractionConfig, heads)
        meant = _meaning(heads, llama.dim)
        for name, value in _meaning(energy, llama.dim).items():
            _require_equal("attention", name, value, meant[name])
        width = energy.width(llama.dim)
        if None not in (heads.relative_bias, energy.relative_bias):
            # A fresh one may join, and the Llama's may be dropped.
            own = heads.relative_bias
            _require_equal("attention", "relative_bias", energy.relative_bias, own)
        _require_equal("attention", "temperature", energy.temperature or width**0.5, width**0.5)
    if target.mlp != gated:
        energy = _energy("mlp", target.mlp, ElementwiseConfig, gated)
        _require_equal("mlp", "features", energy.features, gated.features)
        _require_equal("mlp", "activation", energy.activation, "silu")


def _energy(name: str, config: Any, kind: type, own: Any) -> Any:
    """The energy's config of a CEM sublayer that can take the Llama's weights."""
    if not isinstance(config, CEMConfig) or not isinstance(config.energy, kind):
        raise ValueError(
            f"{name}: got {config!r}, expected CEMConfig({kind.__name__}(...)), or the Llama's own "
            f"{own!r}; its weights have no place in another."
        )
    if config.descent.norm_mode == "none":
        _require_equal(name, "norm_mode", "none", "default")
    return config.energy


def _meaning(config: Any, dim: int) -> dict[str, Any]:
    """The options that say what W_Q and W_K are, with the defaults filled in."""
    return {
        "heads": config.heads,
        "key_heads": config.key_heads or config.heads,
        "head_dim": head_width(dim, config.heads, config.head_dim),
        "rotary": config.rotary,
        "visible": config.visible,
    }


def _require_equal(where: str, name: str, got: Any, expected: Any) -> None:
    if got != expected:
        raise ValueError(
            f"{where}: got {name} = {got!r}, expected {expected!r}, with which the Llama's weights "
            f"mean what they meant; take cem_config_from_llama(llama) or change this option."
        )
