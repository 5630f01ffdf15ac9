"""Every setting that should do nothing, does nothing: each collapses to the simpler layer."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import B, D, L
from flax import nnx

from cem_jax import (
    CEMMLP,
    CEMAttention,
    CEMLayer,
    ContextScoreConfig,
    DescentConfig,
    ElementwiseConfig,
    InteractionConfig,
    MHAConfig,
    PreconditionerConfig,
    Rotary,
    StepSizeConfig,
    SumConfig,
    SwiGLUConfig,
    Visible,
)

BASE = InteractionConfig(2)


def hidden():
    return cases.normal("h", B, L, D)


def build(energy=BASE, **descent):
    descent = {"steps": 2, "step_size": StepSizeConfig(0.3)} | descent
    return CEMLayer(D, energy, DescentConfig(**descent), rngs=nnx.Rngs(0))


def agree(first, second, tolerance=1e-6):
    outputs = jax.jit(lambda h: (first(h, cases.packed()), second(h, cases.packed())))(hidden())
    np.testing.assert_allclose(*outputs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "energy",
    [
        InteractionConfig(2, diagonal="shared"),
        InteractionConfig(2, diagonal="head"),
        InteractionConfig(2, relative_bias=3),
        InteractionConfig(2, key_heads=2),
        InteractionConfig(2, head_dim=4),
        InteractionConfig(2, temperature=2.0),
        InteractionConfig(2, learn_temperature=True),
        InteractionConfig(2, visible=Visible(window=L)),
        InteractionConfig(2, backend="plain"),
        SumConfig((BASE,)),
    ],
    ids=["d=0", "d_h=0", "b=0", "G=H", "K=D/H", "tau", "learned", "W=L", "plain", "sum"],
)
def test_option_at_its_start_is_the_low_rank_layer(energy):
    agree(build(), build(energy))


def test_context_score_of_zero_is_none():
    scored = build(InteractionConfig(2, context_score=ContextScoreConfig(2)))
    scored.energy.score.wq[...] = 0 * scored.energy.score.wq[...]
    agree(scored, build())


@pytest.mark.parametrize("definite", [False, True])
def test_preconditioner_at_its_start_is_the_identity(definite):
    agree(build(), build(preconditioner=PreconditionerConfig(2, definite)))


@pytest.mark.parametrize("definite", [False, True])
def test_preconditioner_of_each_step_begins_as_the_identity(definite):
    agree(build(), build(preconditioner=PreconditionerConfig(2, definite, learn="step")))


def test_momentum_of_one_step_is_none():
    agree(build(steps=1), build(steps=1, momentum=0.9))


@pytest.mark.parametrize("learn", ["fixed", "step"])
def test_learned_step_sizes_begin_as_the_fixed_one(learn):
    agree(build(), build(step_size=StepSizeConfig(0.3, learn)))


@pytest.mark.parametrize("energy", [BASE, ElementwiseConfig(12)])
def test_mode_once_is_the_default_after_one_step_only(energy):
    default, once = (build(energy, norm_mode=mode) for mode in ("default", "once"))
    h = hidden()
    outputs = jax.jit(lambda h: [m(h, steps=n) for n in (1, 2) for m in (default, once)])(h)
    np.testing.assert_allclose(*outputs[:2], rtol=1e-6, atol=1e-6)
    assert jnp.max(jnp.abs(outputs[2] - outputs[3])) > 1e-4


def test_one_unit_step_is_attention_with_tied_weights():
    """Against the baseline's own sublayer, with W_V = W_K and W_O = W_Q^T; no rotation."""
    flat = Rotary(fraction=0.0)
    layer = build(InteractionConfig(2, rotary=flat), steps=1, step_size=StepSizeConfig(1.0))
    common = {"norm_eps": 1e-5, "dtype": "float32", "rngs": nnx.Rngs(1)}
    hand = MHAConfig(2, rotary=flat).build(D, **common)
    query, key = layer.energy.wq[...], layer.energy.wk[...]
    hand.wq[...], hand.wk[...], hand.wv[...] = query, key, key
    hand.wo[...] = jnp.moveaxis(query, 0, -1)
    agree(layer, hand)


def test_two_forms_are_one_gated_mlp_at_one_step_and_differ_after_two():
    common = {"norm_eps": 1e-5, "dtype": "float32", "rngs": nnx.Rngs(1)}
    hand = SwiGLUConfig(12).build(D, **common)
    for form in ("quadratic", "nonlinear"):
        layer = build(ElementwiseConfig(12, form), steps=1, step_size=StepSizeConfig(1.0))
        gate, up = layer.energy.gate[...], layer.energy.up[...]
        first, second = (gate, up) if form == "quadratic" else (up, gate)
        hand.gate[...], hand.up[...], hand.down[...] = first, second, up.T
        agree(layer, hand)


def test_sum_of_two_is_the_sum_of_their_steps():
    both = build(SumConfig((BASE, ElementwiseConfig(12))), steps=1)
    parts = [build(BASE, steps=1), build(ElementwiseConfig(12), steps=1)]
    for part, term in zip(parts, both.energy.terms, strict=True):
        nnx.update(part.energy, nnx.state(term, nnx.Param))
    h = hidden()
    np.testing.assert_allclose(both(h) - h, sum(p(h) - h for p in parts), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"energy": InteractionConfig(2, diagonal="head", relative_bias=3, learn_temperature=True)},
        {"energy": InteractionConfig(2, diagonal="shared")},
        {"preconditioner": PreconditionerConfig(2)},
        {"preconditioner": PreconditionerConfig(2, definite=True)},
        {"step_size": StepSizeConfig(0.3, "step")},
    ],
    ids=["head", "shared", "P", "MM^T", "eta"],
)
def test_what_starts_at_zero_receives_a_gradient(options):
    graph, params = cases.split(build(**options))
    weight = cases.normal("weight", B, L, D)
    loss = lambda params: jnp.sum(weight * nnx.merge(graph, params)(hidden()))  # noqa: E731
    slopes = jax.jit(jax.grad(loss))(params)
    for path, leaf in jax.tree.leaves_with_path(slopes):
        if "left" not in jax.tree_util.keystr(path):  # U waits for V's first step
            assert jnp.any(leaf != 0), jax.tree_util.keystr(path)
    if "step_size" in options:
        assert (slopes["step_size"]["raw"] != 0).all()


def test_two_names_are_the_layer():
    for cls, energy in ((CEMAttention, BASE), (CEMMLP, ElementwiseConfig(12))):
        agree(
            cls(D, energy, DescentConfig(2), rngs=nnx.Rngs(0)),
            build(energy, step_size=StepSizeConfig()),
        )


def test_output_keeps_the_dtype_of_its_input():
    layer = build()
    assert layer(hidden().astype(jnp.bfloat16)).dtype == jnp.bfloat16
    assert layer.run(hidden().astype(jnp.bfloat16)).x.dtype == jnp.float32


def test_layers_of_equal_seed_are_equal():
    agree(build(), build(), tolerance=0)
