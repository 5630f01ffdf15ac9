"""A CEM that starts from a Llama: what is kept means what it meant, the rest is fresh or named."""

import dataclasses
import functools

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attended import probabilities
from filled import filled, noisy, transformer
from flax import nnx

from cem_jax import (
    CEMConfig,
    DescentConfig,
    ElementwiseConfig,
    MemoryConfig,
    MHAConfig,
    Recipe,
    Rotary,
    Sites,
    StepSizeConfig,
    SwiGLUConfig,
    Transformer,
    TransformerConfig,
    Visible,
)
from cem_jax.models.llama_to_cem import cem_config_from_llama, cem_from_llama
from cem_jax.models.weights import flatten
from cem_jax.ops.rotary import rotate, rotation

V, D, F, H, G, K, N, LENGTH = 11, 16, 12, 4, 2, 6, 2, 5

LLAMA = TransformerConfig(
    vocab_size=V,
    dim=D,
    layers=N,
    attention=MHAConfig(
        H, key_heads=G, head_dim=K, rotary=Rotary(base=100.0), visible=Visible(window=4)
    ),
    mlp=SwiGLUConfig(F),
    tie_embeddings=False,
    norm_eps=1e-6,
)
FULL = cem_config_from_llama(LLAMA)
FAMILIES = ("cem", "cem-attention", "cem-mlp")


def replaced(config, name, **changes):
    """A sublayer's energy with other options."""
    sublayer = getattr(config, name)
    energy = dataclasses.replace(sublayer.energy, **changes)
    return dataclasses.replace(config, **{name: dataclasses.replace(sublayer, energy=energy)})


@pytest.mark.parametrize("family", ["llama", *FAMILIES])
def test_config_of_a_preset_llama_is_the_presets_own(family):
    recipe = Recipe(steps=3, diagonal="head", remat="full")
    for chosen in (None, recipe):
        own = TransformerConfig.small(family, chosen)
        llama = TransformerConfig.small("llama")
        assert cem_config_from_llama(llama, family, chosen) == own


@pytest.mark.parametrize("family", FAMILIES)
def test_kept_fresh_and_dropped(family):
    params = noisy(LLAMA)
    target = cem_config_from_llama(LLAMA, family)
    start = cem_from_llama(LLAMA, params, target)
    given, got = flatten(params), flatten(start.params)
    attention, mlp = (family in ("cem", f"cem-{name}") for name in ("attention", "mlp"))
    kept = {name: name for name in given}
    dropped, fresh = {}, {}
    learned = {"preconditioner.diagonal": N * D, "step_size.raw": N}
    learned |= {f"preconditioner.{name}": N * D * 16 for name in ("left", "right")}
    if attention:
        kept |= {f"blocks.attention.{w}": f"blocks.attention.energy.{w}" for w in ("wq", "wk")}
        dropped |= {"blocks.attention.wv": N * D * G * K, "blocks.attention.wo": N * D * H * K}
        fresh |= {f"blocks.attention.{name}": size for name, size in learned.items()}
        fresh |= {"blocks.attention.energy.d": N * D}
    if mlp:
        # The nonlinear form has its activation on Wu u, Llama on the gate.
        kept |= {
            "blocks.mlp.gate": "blocks.mlp.energy.up",
            "blocks.mlp.up": "blocks.mlp.energy.gate",
        }
        dropped |= {"blocks.mlp.down": N * D * F}
        fresh |= {f"blocks.mlp.{name}": size for name, size in learned.items()}
    assert (start.dropped, start.fresh) == (dropped, fresh)
    for name in dropped:
        del kept[name]
    for theirs, ours in kept.items():
        np.testing.assert_array_equal(got.pop(ours), given[theirs])
    assert got.keys() == fresh.keys()
    assert all(type(leaf) is np.ndarray for leaf in got.values())


def test_a_relative_bias_is_kept_where_the_target_has_it():
    heads = dataclasses.replace(LLAMA.attention, relative_bias=3)
    llama = dataclasses.replace(LLAMA, attention=heads)
    params, table = noisy(llama), ("blocks", "attention", "bias", "table")
    full = cem_config_from_llama(llama)
    own = functools.reduce(lambda tree, name: tree[name], table, params)
    start = cem_from_llama(llama, params, full)
    np.testing.assert_array_equal(
        start.params["blocks"]["attention"]["energy"]["bias"]["table"], own
    )
    dropped = cem_from_llama(llama, params, replaced(full, "attention", relative_bias=None)).dropped
    assert dropped["blocks.attention.bias.table"] == N * H * 3
    fresh = cem_from_llama(LLAMA, noisy(LLAMA), full).fresh
    assert fresh["blocks.attention.energy.bias.table"] == N * H * 3
    with pytest.raises(ValueError, match="attention: got relative_bias = 4, expected 3"):
        cem_from_llama(llama, params, replaced(full, "attention", relative_bias=4))


def test_fresh_parameters_are_those_of_a_fresh_model():
    start = cem_from_llama(LLAMA, noisy(LLAMA), FULL, seed=3)
    create = lambda: cases.split(Transformer(FULL, rngs=nnx.Rngs(3)))[1]  # noqa: E731
    model, got = flatten(jax.jit(create)()), flatten(start.params)
    for name in start.fresh:
        np.testing.assert_allclose(got[name], model[name], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("diagonal", ["none", "shared"])
def test_attention_probabilities_of_the_first_layer_are_the_llamas(diagonal):
    params = noisy(LLAMA)
    target = cem_config_from_llama(LLAMA, "cem", Recipe(diagonal=diagonal))
    target = replaced(target, "attention", relative_bias=LENGTH)
    start = cem_from_llama(LLAMA, params, target).params
    found = probabilities(*first_layer(target, start))
    expected = jax.jit(llama_probabilities)(*first_layer(LLAMA, params))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def llama_probabilities(layer, h):
    c, sites = layer.norm(h), Sites.dense(*h.shape[:2])
    table = rotation(sites.position, K, layer.config.rotary, c.dtype)
    query, key = (
        rotate(jnp.einsum("bld,dhk->blhk", c, w[...]), table) for w in (layer.wq, layer.wk)
    )
    scores = jnp.einsum("blhk,bshk->bhls", query, jnp.repeat(key, H // G, axis=2)) / K**0.5
    mask = layer.config.visible.allowed(sites, sites)[:, None]
    return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)


def first_layer(config, params):
    """The first attention and its input."""
    options = {"norm_eps": config.norm_eps, "dtype": "float32"}
    first = jax.tree.map(lambda leaf: leaf[0], params["blocks"]["attention"])
    layer = filled(lambda rngs: config.attention.build(D, rngs=rngs, **options), first)
    return layer, jnp.asarray(params["embedding"][np.arange(2 * LENGTH).reshape(2, LENGTH) % V])


@pytest.mark.parametrize("form", ["nonlinear", "quadratic"])
def test_hidden_features_are_the_llamas(form):
    """One plain step of size one is the Llama's own MLP with its down projection tied."""
    llama = dataclasses.replace(LLAMA, layers=1)
    params = noisy(llama)
    plain = DescentConfig(steps=1, step_size=StepSizeConfig(1.0, "fixed"))
    target = dataclasses.replace(llama, mlp=CEMConfig(ElementwiseConfig(F, form), plain))
    cem = transformer(target, cem_from_llama(llama, params, target).params)
    tied = params["blocks"]["mlp"]["gate" if form == "nonlinear" else "up"]
    params["blocks"]["mlp"]["down"] = np.swapaxes(tied, 1, 2)
    tokens = np.arange(LENGTH)[None] % V
    found, expected = jax.jit(lambda t: (cem(t), transformer(llama, params)(t)))(tokens)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_llamas_own_sublayers_lose_nothing():
    params = noisy(LLAMA)
    start = cem_from_llama(LLAMA, params, cem_config_from_llama(LLAMA, "llama"))
    assert (start.dropped, start.fresh) == ({}, {})
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, start.params, params)))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (dataclasses.replace(FULL, layers=3), "target: got layers = 3, expected 2"),
        (dataclasses.replace(FULL, tie_embeddings=True), "target: got tie_embeddings = True"),
        (dataclasses.replace(FULL, norm_eps=1e-5), "target: got norm_eps = 1e-05"),
        (replaced(FULL, "attention", key_heads=4), "attention: got key_heads = 4, expected 2"),
        (replaced(FULL, "attention", head_dim=None), "attention: got head_dim = 4, expected 6"),
        (replaced(FULL, "attention", rotary=Rotary()), "attention: got rotary = "),
        (replaced(FULL, "attention", visible=Visible()), "attention: got visible = "),
        (replaced(FULL, "attention", temperature=1.0), "attention: got temperature = 1.0"),
        (replaced(FULL, "mlp", features=13), "mlp: got features = 13, expected 12"),
        (replaced(FULL, "mlp", activation="gelu"), "mlp: got activation = 'gelu', expected 'silu'"),
        (
            dataclasses.replace(FULL, mlp=CEMConfig(MemoryConfig(8))),
            "mlp: got .*expected CEMConfig",
        ),
        (dataclasses.replace(FULL, mlp=SwiGLUConfig(13)), "mlp: got SwiGLU.*expected CEMConfig"),
        (
            dataclasses.replace(
                FULL, attention=CEMConfig(FULL.attention.energy, DescentConfig(norm_mode="none"))
            ),
            "attention: got norm_mode = 'none', expected 'default'",
        ),
    ],
)
def test_target_in_which_the_weights_would_mean_something_else(target, message):
    params = noisy(LLAMA)
    with pytest.raises(ValueError, match=message):
        cem_from_llama(LLAMA, params, target)


def test_options_that_say_the_same_are_taken():
    target = replaced(
        FULL, "attention", temperature=K**0.5, backend="plain", relative_bias=4, diagonal="head"
    )
    start = cem_from_llama(LLAMA, noisy(LLAMA), target)
    assert start.fresh["blocks.attention.energy.bias.table"] == N * H * 4
    plain = dataclasses.replace(LLAMA, attention=MHAConfig(H))
    target = replaced(cem_config_from_llama(plain), "attention", key_heads=H, head_dim=D // H)
    assert cem_from_llama(plain, noisy(plain), target).dropped.keys() == start.dropped.keys()


@pytest.mark.usefixtures("hook_off")
def test_what_is_no_llama_is_refused():
    with pytest.raises(ValueError, match="llama: got the sublayers CEMConfig and CEMConfig"):
        cem_config_from_llama(FULL)
    for family in ("lstm", "cem-context"):
        with pytest.raises(ValueError, match=f"family: got '{family}'"):
            cem_config_from_llama(LLAMA, family)
    params = noisy(LLAMA)
    del params["readout"]
    with pytest.raises(ValueError, match="params: got weights without readout"):
        cem_from_llama(LLAMA, params, FULL)
