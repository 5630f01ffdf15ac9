"""Formulas of products against the jaxpr, and the jaxpr's derivative against the reverse one."""

import dataclasses
from typing import get_args

import cases
import jax
import jax.numpy as jnp
import optax
import pytest
from cases import B, D, L, over
from flax import nnx

from cem_jax import (
    CEMConfig,
    ContextScoreConfig,
    DescentConfig,
    ElementwiseConfig,
    Energy,
    InteractionConfig,
    MHAConfig,
    PreconditionerConfig,
    Recipe,
    SumConfig,
    SwiGLUConfig,
    Transformer,
    TransformerConfig,
    Visible,
)
from cem_jax.models.cost import count_flops, count_forward_flops, count_training_flops
from cem_jax.models.cost.flops import Flops, sublayer_flops
from cem_jax.models.cost.formulas import formula
from cem_jax.models.cost.pairs import count_pairs
from cem_jax.models.cost.traced import count_flops_with_derivative
from cem_jax.ops.attention_backend import AttentionBackend
from cem_jax.ops.remat import Remat
from cem_jax.ops.visibility import Sites


def pure(config):
    """The sublayer as a function of shapes."""
    build = {"norm_eps": 1e-5, "dtype": "float32"}
    module = nnx.eval_shape(lambda: config.build(D, rngs=nnx.Rngs(0), **build))
    graph, state = nnx.split(module)
    shape = jax.ShapeDtypeStruct((B, L, D), jnp.float32)
    return lambda state, h: nnx.merge(graph, state)(h), state, shape


def traced(config):
    function, *arguments = pure(config)
    forward = count_flops(function, *arguments)
    return Flops(forward, count_flops_with_derivative(function, *arguments))


def reverse(config):
    """What reverse mode asks for, its forward pass included."""
    function, *arguments = pure(config)

    def step(state, h):
        out, pull = jax.vjp(function, state, h)
        return out, pull(jnp.ones_like(out))

    return count_flops(step, *arguments)


def counted(config, pairs="full"):
    return sublayer_flops(config, D, batch=B, length=L, pairs=pairs)


def attention(steps=2, transformation=None, **options):
    descent = {
        name: options.pop(name) for name in ("preconditioner", "norm_mode") if name in options
    }
    energy = InteractionConfig(2, **options)
    return CEMConfig(energy, DescentConfig(steps, **descent), transformation)


def mlp(steps=2, **descent):
    return CEMConfig(ElementwiseConfig(12), DescentConfig(steps, **descent))


@over(cases.ENERGIES)
def test_the_formula_of_every_energy_equals_its_jaxpr(name):
    config = CEMConfig(cases.ENERGY[name].config, DescentConfig(2))
    assert formula(config, D) is not None
    assert counted(config) == traced(config)


VARIANTS = {
    "one": attention(1),
    "three": attention(3, diagonal="shared"),
    "three-score": attention(3, context_score=ContextScoreConfig(4)),
    "two-way": attention(visible=Visible(causal=False)),
    "mlp-one": mlp(1),
    "mlp-three": mlp(3),
    "symmetric": attention(3, preconditioner=PreconditionerConfig(3)),
    "definite": mlp(3, preconditioner=PreconditionerConfig(3, definite=True)),
    **{mode: attention(norm_mode=mode) for mode in ("exact", "once", "none")},
    "rule": attention(transformation=optax.clip_by_global_norm(0.3)),
    "llama": MHAConfig(2),
    "llama-grouped": MHAConfig(4, key_heads=2, head_dim=6),
    "swiglu": SwiGLUConfig(12),
}


@over(list(VARIANTS))
def test_the_formula_of_every_option_equals_its_jaxpr(name):
    config = VARIANTS[name]
    assert formula(config, D) is not None
    assert counted(config) == traced(config)


@over([name for name in VARIANTS if name != "three-score"])
def test_reverse_mode_asks_for_the_products_that_training_counts(name):
    assert reverse(VARIANTS[name]) == counted(VARIANTS[name]).training


def test_reverse_mode_scores_the_context_once_for_all_steps():
    # JAX takes what is the same in all steps out of the loop whose residuals it keeps.
    score = 2 * B * L * L * 2 * 4
    config = VARIANTS["three-score"]
    assert reverse(config) == counted(config).training - 2 * score


@pytest.mark.parametrize(
    ("family", "recipe"),
    [
        ("llama", None),
        ("cem", Recipe(2, "shared", PreconditionerConfig(3))),
        ("cem-context", None),
    ],
)
def test_the_counts_of_a_model_are_those_of_its_jaxpr(family, recipe):
    config = dataclasses.replace(TransformerConfig.tiny(family, recipe), tie_embeddings=False)
    graph, state = nnx.split(nnx.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0))))
    tokens = jax.ShapeDtypeStruct((B, L), jnp.int32)

    def loss(state, tokens):
        return nnx.merge(graph, state).cross_entropy(tokens, tokens, tokens >= 0)[0]

    size = {"batch": B, "length": L}
    assert count_forward_flops(config, **size) == count_flops(loss, state, tokens)
    step = count_flops(jax.value_and_grad(loss), state, tokens)
    assert count_training_flops(config, **size, pairs="full") == step


class Bilinear(Energy):
    """An energy that no formula knows: -u . W (the mean of all c)."""

    def __init__(self, dim, *, rngs):
        self.weight = nnx.Param(jnp.ones((dim, dim)))

    def condition(self, c, sites):
        return jnp.einsum("bsd,de->bse", c, self.weight[...])

    def __call__(self, u, context):
        return -jnp.einsum("bld,bsd->bls", u, context).sum(-1)


@dataclasses.dataclass(frozen=True)
class BilinearConfig:
    def build(self, dim, *, rngs):
        return Bilinear(dim, rngs=rngs)


@pytest.mark.parametrize("remat", get_args(Remat))
def test_an_energy_without_a_formula_is_traced_and_what_is_recomputed_is_not_counted(remat):
    config = CEMConfig(BilinearConfig(), DescentConfig(3, remat=remat))
    assert formula(config, D) is None
    # The gradient -W (sum of c) does not depend on u: its one product is with the cotangent, ones.
    once, step = 2 * B * L * D * D, 2 * B * L * L * D
    assert counted(config).forward == once + 3 * step
    # Of a step's product one operand is constant.
    assert counted(config).training == 3 * once + 3 * 2 * step
    # It says nothing of its pairs: all count.
    assert counted(config, "visible") == counted(config)


@dataclasses.dataclass(frozen=True)
class OwnInteraction(InteractionConfig):
    """A subclass, which may compute something else and has no formula therefore."""


@pytest.mark.parametrize("backend", get_args(AttentionBackend))
def test_what_is_traced_is_counted_on_the_reference_backend(backend):
    own = SumConfig((OwnInteraction(2, backend=backend), ElementwiseConfig(12)))
    config = CEMConfig(own, DescentConfig(2))
    assert formula(config, D) is None
    known = SumConfig((InteractionConfig(2), ElementwiseConfig(12)))
    assert counted(config) == counted(CEMConfig(known, DescentConfig(2)))


def test_a_rule_with_products_of_its_own_is_counted_as_it_is():
    matrix = jnp.ones((D, D))
    rule = optax.stateless(lambda updates, _: matrix @ updates)
    config = attention(transformation=rule)
    assert formula(config, D) is None
    assert counted(config).forward == counted(attention()).forward + 2 * 2 * B * L * D * D


RULES = [
    Visible(),
    Visible(window=1),
    Visible(window=3),
    Visible(window=99),
    Visible(causal=False),
    Visible(causal=False, window=3),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("length", [1, 2, 7])
def test_visible_pairs_are_those_of_the_mask(rule, length):
    sites = Sites.dense(1, length)
    assert count_pairs(length, rule, "visible") == int(rule.allowed(sites, sites).sum())
    assert count_pairs(length, rule, "full") == length**2


def test_visible_pairs_leave_projections_alone_and_take_each_rule_by_itself():
    own = InteractionConfig(2)
    near = InteractionConfig(2, visible=Visible(window=2))
    config = CEMConfig(SumConfig((own, near)), DescentConfig(1))
    # Score and readout, each of width D: of 15 of the 25 pairs of five positions, and of 9.
    hidden = (25 - 15) + (25 - 9)
    assert counted(config, "full").forward - counted(config, "visible").forward == (
        2 * 2 * B * hidden * D
    )
    assert counted(mlp(), "visible") == counted(mlp(), "full")
    near = MHAConfig(2, visible=Visible(window=2))
    assert counted(near).forward - counted(near, "visible").forward == 2 * 2 * B * 16 * D


def test_what_is_no_choice_of_pairs_or_no_size_is_refused(hook_off):
    config = TransformerConfig.tiny("llama")
    with pytest.raises(ValueError, match="pairs: got 'causal', expected one of"):
        count_training_flops(config, batch=1, length=8, pairs="causal")
    with pytest.raises(ValueError, match="length: got 0"):
        count_forward_flops(config, batch=1, length=0)
    with pytest.raises(ValueError, match=r"batch: got 1\.5"):
        count_forward_flops(config, batch=1.5, length=8)
