"""The parts of a model's cost: shares, sums, caches and ratios."""

import dataclasses

import pytest
from flax import nnx

from cem_jax import (
    CEMConfig,
    ContextScoreConfig,
    DescentConfig,
    ElementwiseConfig,
    Energy,
    EnergyOf,
    InteractionConfig,
    MemoryConfig,
    MHAConfig,
    PreconditionerConfig,
    Recipe,
    SumConfig,
    SwiGLUConfig,
    TransformerConfig,
)
from cem_jax.models.cost import (
    Cost,
    count_cost,
    count_forward_flops,
    count_parameters,
    count_training_flops,
)
from cem_jax.models.cost.cache import cache_bytes_per_token

B, L = 2, 24
PLAIN = Recipe(2, "none", None)


def cost(config, pairs="full"):
    return count_cost(config, batch=B, length=L, pairs=pairs)


@pytest.mark.parametrize("family", ["llama", "cem-attention", "cem-mlp", "cem", "cem-context"])
@pytest.mark.parametrize("tied", [True, False])
def test_parts_sum_to_the_model(family, tied):
    config = dataclasses.replace(TransformerConfig.tiny(family), tie_embeddings=tied)
    parts = cost(config, "visible")
    assert parts.total.parameters == count_parameters(config).total
    full = cost(config).total
    assert full.forward_flops == count_forward_flops(config, batch=B, length=L)
    training = count_training_flops(config, batch=B, length=L, pairs="visible")
    assert parts.total.training_flops == training < full.training_flops
    one = parts.attention.activation_bytes + parts.mlp.activation_bytes
    assert parts.total.activation_bytes == 4 * one + parts.readout.activation_bytes
    cache = parts.attention.cache_bytes_per_token
    assert parts.total.cache_bytes_per_token == 4 * cache


def test_a_further_loop_costs_all_but_parameters():
    once = TransformerConfig.tiny("cem")
    twice = dataclasses.replace(once, loops=2)
    blocks, more = cost(once).blocks, cost(twice).blocks
    assert more == dataclasses.replace(blocks * 2, parameters=blocks.parameters)
    assert cost(twice).total.parameters == count_parameters(twice).total
    forward = count_forward_flops(twice, batch=B, length=L)
    assert cost(twice).total.forward_flops == forward


def test_parts_of_the_full_cem_by_hand():
    # T = 2, one d for all heads, P of rank 16; D 128, F 344, V 2048.
    parts = cost(TransformerConfig.tiny("cem"))
    tokens, pairs = 2 * B * L, 2 * B * L * L
    matrix = 128 + 2 * 128 * 16
    assert parts.embedding == Cost(parameters=2048 * 128)
    assert parts.attention.parameters == 128 + 2 * 128**2 + 128 + 1 + matrix
    assert parts.mlp.parameters == 128 + 2 * 128 * 344 + 1 + matrix
    assert parts.readout.parameters == 128
    thin = 2 * 4 * 128 * 16
    assert parts.attention.forward_flops == tokens * (5 * 128**2 + thin) + pairs * 2 * 4 * 128
    assert parts.mlp.forward_flops == tokens * (5 * 128 * 344 + thin)
    assert parts.readout.forward_flops == tokens * 128 * 2048
    for part in (parts.attention, parts.mlp, parts.readout):
        assert part.training_flops == 3 * part.forward_flops


@pytest.mark.parametrize(("steps", "ratio"), [(1, 0.95), (2, 1.43)])
def test_forward_flops_of_cem_over_those_of_llama(steps, ratio):
    # Width 256, six layers, four heads, feed-forward 688, 256 positions, vocabulary 8192.
    cem, llama = (
        count_forward_flops(TransformerConfig.small(family, recipe), batch=1, length=256)
        for family, recipe in (("cem", Recipe(steps, "none", None)), ("llama", None))
    )
    assert round(cem / llama, 2) == ratio


@pytest.mark.parametrize(
    ("attention", "numbers"),
    [
        (MHAConfig(4), 2 * 4 * 32),
        (MHAConfig(4, key_heads=2), 2 * 2 * 32),
        (InteractionConfig(4), 4 * 32),
        (InteractionConfig(4, key_heads=2, head_dim=16), 2 * 16),
        (InteractionConfig(4, key_heads=2, diagonal="shared"), 2 * 32 + 128),
        (InteractionConfig(4, diagonal="head"), 4 * 32 + 128),
        (InteractionConfig(4, key_heads=2, context_score=ContextScoreConfig(8)), 2 * (32 + 8)),
        (InteractionConfig(4, relative_bias=9), 4 * 32),
        (MemoryConfig(7), 0),
        (ElementwiseConfig(12), 0),
        (SumConfig((InteractionConfig(4), ElementwiseConfig(12))), 4 * 32),
    ],
    ids=str,
)
def test_cache_of_a_token(attention, numbers):
    if not isinstance(attention, MHAConfig):
        attention = CEMConfig(attention, DescentConfig(3))
    assert cache_bytes_per_token(attention, 128, dtype="float32") == 4 * numbers
    assert cache_bytes_per_token(attention, 128, dtype="bfloat16") == 2 * numbers


class Two(Energy):
    """Keeps of its context two numbers in float32 per position, and a constant."""

    def __init__(self, dim, *, rngs):
        self.scale = nnx.Param(nnx.initializers.ones(rngs.params(), (dim,)))

    def condition(self, c, sites):
        return c[:, :, :2].astype("float32"), self.scale[...]

    def __call__(self, u, context):
        return (u * self.scale[...][None, None]).astype("float32").sum(-1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_cache_of_an_energy_without_a_formula_is_what_its_context_grows_by(dtype):
    assert cache_bytes_per_token(CEMConfig(EnergyOf(Two)), 8, dtype=dtype) == 8


@dataclasses.dataclass(frozen=True)
class OwnSublayer:
    """A sublayer that is no CEM layer and has no formula."""

    def build(self, dim, *, norm_eps, dtype, rngs):
        return SwiGLUConfig(12).build(dim, norm_eps=norm_eps, dtype=dtype, rngs=rngs)


def test_cache_of_an_unknown_sublayer_is_unknown():
    config = TransformerConfig(64, 8, 3, OwnSublayer(), SwiGLUConfig(12))
    parts = cost(config)
    assert parts.attention.cache_bytes_per_token is None
    assert parts.total.cache_bytes_per_token is None
    known = dataclasses.replace(parts.attention, cache_bytes_per_token=0)
    assert known == parts.mlp  # all else is counted


def test_activations_grow_by_what_each_step_keeps():
    def kept(steps, remat="none", preconditioner=None):
        descent = DescentConfig(steps, preconditioner=preconditioner, remat=remat)
        mlp = CEMConfig(ElementwiseConfig(12), descent)
        return cost(TransformerConfig(64, 8, 1, MHAConfig(2), mlp)).mlp.activation_bytes

    stream = 4 * B * L * 8
    assert kept(3) - kept(2) == kept(4) - kept(3) > 2 * stream
    # Recomputed, a step keeps the x that it carries.
    assert kept(4, "full") - kept(3, "full") == stream
    assert kept(3, "full") < kept(3, "products") < kept(3)
    assert kept(2, preconditioner=PreconditionerConfig(16)) > kept(2)


def test_a_recomputed_sublayer_keeps_its_input_alone():
    config = dataclasses.replace(TransformerConfig.tiny("cem", PLAIN), remat="full")
    parts = cost(config)
    assert parts.attention.activation_bytes == parts.mlp.activation_bytes == 4 * B * L * 128
    assert (
        parts.total.training_flops
        == cost(TransformerConfig.tiny("cem", PLAIN)).total.training_flops
    )


def test_activations_are_narrower_in_bfloat16_and_proportional_to_the_batch():
    config = TransformerConfig.tiny("cem", PLAIN)
    wide = cost(config).blocks.activation_bytes
    narrow = cost(dataclasses.replace(config, dtype="bfloat16")).blocks.activation_bytes
    assert wide / 2 < narrow < wide
    assert count_cost(config, batch=2 * B, length=L).blocks.activation_bytes == 2 * wide


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_loss_keeps_the_gradient_of_the_readout_and_no_logits(dtype):
    few, more = (
        cost(TransformerConfig(size, 8, 1, MHAConfig(2), SwiGLUConfig(12), dtype=dtype))
        for size in (50, 150)
    )
    difference = more.readout.activation_bytes - few.readout.activation_bytes
    assert difference == 4 * 8 * 100
    assert few.readout.activation_bytes > 4 * (B * L * 8 + 50 * 8)
