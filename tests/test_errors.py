"""Callers' mistakes: each is a ValueError that says what came, what was expected, what to do.

The type hook is off, as it is for callers; the first test sees that this is so.
"""

import re

import cases
import jax
import jax.numpy as jnp
import optax
import pytest
from cases import B, D, L
from flax import nnx

from cem_jax import (
    CEMMLP,
    CEMAttention,
    CEMConfig,
    CEMLayer,
    ContextScoreConfig,
    DescentConfig,
    ElementwiseConfig,
    Energy,
    EnergyOf,
    InteractionConfig,
    MemoryConfig,
    MHAConfig,
    PreconditionerConfig,
    Rotary,
    Sites,
    StepSizeConfig,
    SumConfig,
    SwiGLUConfig,
    Transformer,
    TransformerConfig,
    Visible,
    descend,
)
from cem_jax.ops.attention_energy import attention_energy
from cem_jax.ops.attention_terms import AttentionTerms
from cem_jax.ops.constrain import constrain
from cem_jax.ops.potentials import activate, potential
from cem_jax.ops.readout import readout_cross_entropy

pytestmark = pytest.mark.usefixtures("hook_off")


def nats(hidden, targets, mask):
    return readout_cross_entropy(hidden, jnp.ones((7, hidden.shape[-1])), targets, mask)


def test_hook_is_off_for_functions_dataclasses_and_modules():
    for call in (
        lambda: Visible(window=1.5),
        lambda: CEMLayer("8", MemoryConfig(3), rngs=nnx.Rngs(0)),
        lambda: constrain(jnp.ones((2, 3)), "B"),
    ):
        with pytest.raises(ValueError, match="got"):
            call()


def make(energy=None, **options):
    energy = InteractionConfig(2) if energy is None else energy
    return CEMLayer(D, energy, rngs=nnx.Rngs(0), **options)


def h(*shape, dtype=jnp.float32):
    return jnp.ones(shape or (B, L, D), dtype)


def step(energy, **options):
    options = {"steps": 2, "transformation": optax.scale(-0.1)} | options
    return descend(energy, h(), **options)


def model(**options):
    options = {"vocab_size": 11, "dim": D, "layers": 1} | options
    return TransformerConfig(**({"attention": MHAConfig(2), "mlp": SwiGLUConfig(5)} | options))


def bowl(u):
    return 0.5 * jnp.sum(u**2, -1)


CONFIGS = {
    "heads of zero": (lambda: InteractionConfig(0), "heads: got 0"),
    "heads by name": (lambda: InteractionConfig("two"), "heads: got 'two'"),
    "key heads": (lambda: InteractionConfig(4, key_heads=3), "got 4 and 3, .* multiple"),
    "no key heads": (lambda: InteractionConfig(4, key_heads=0), "key_heads: got 0"),
    "key heads of MHA": (lambda: MHAConfig(4, key_heads=3), "got 4 and 3, .* multiple"),
    "head width": (lambda: InteractionConfig(2, head_dim=0), "head_dim: got 0"),
    "diagonal": (lambda: InteractionConfig(2, diagonal="row"), "diagonal: got 'row'.*'shared'"),
    "backend": (lambda: InteractionConfig(2, backend="flash"), "backend: got 'flash'.*'plain'"),
    "temperature": (lambda: InteractionConfig(2, temperature=0.0), "temperature: got 0.0"),
    "bias": (lambda: InteractionConfig(2, relative_bias=0), "relative_bias: got 0"),
    "bias both ways": (
        lambda: InteractionConfig(2, relative_bias=3, visible=Visible(causal=False)),
        "relative_bias: .* bidirectional",
    ),
    "window of zero": (lambda: Visible(window=0), "window: got 0"),
    "window of one and a half": (lambda: Visible(window=1.5), "window: got 1.5"),
    "fraction": (lambda: Rotary(fraction=1.5), "fraction: got 1.5"),
    "base": (lambda: Rotary(base=float("nan")), "base: got nan"),
    "odd rotary width": (lambda: InteractionConfig(2, head_dim=3).width(D), "rotary width: got 3"),
    "odd context score": (lambda: ContextScoreConfig(3), "rotary width: got 3"),
    "context score": (lambda: ContextScoreConfig(0), "width: got 0"),
    "features": (lambda: ElementwiseConfig(0), "features: got 0"),
    "features of SwiGLU": (lambda: SwiGLUConfig(0.5), "features: got 0.5"),
    "form": (lambda: ElementwiseConfig(4, form="cubic"), "form: got 'cubic'"),
    "activation": (lambda: ElementwiseConfig(4, activation="tanh"), "activation: got 'tanh'"),
    "elementwise backend": (lambda: ElementwiseConfig(4, backend="x"), "backend: got 'x'"),
    "patterns": (lambda: MemoryConfig(0), "patterns: got 0"),
    "no terms": (lambda: SumConfig(()), r"terms: got \(\)"),
    "terms by name": (lambda: SumConfig(("memory",)), "terms: got 'memory'"),
    "T of zero": (lambda: DescentConfig(steps=0), "steps: got 0"),
    "T of true": (lambda: DescentConfig(steps=True), "steps: got True"),
    "T traced": (lambda: DescentConfig(steps=jnp.int32(2)), "steps: got .*static"),
    "unroll": (lambda: DescentConfig(unroll=0), "unroll: got 0"),
    "unroll with remat": (lambda: DescentConfig(3, unroll=2, remat="full"), "unroll: got 2 with"),
    "momentum": (lambda: DescentConfig(momentum=1.0), "momentum: got 1.0"),
    "no momentum": (lambda: DescentConfig(momentum=float("nan")), "momentum: got nan"),
    "P of what": (
        lambda: PreconditionerConfig(learn="each"),
        "preconditioner learning: got 'each'",
    ),
    "norm mode": (lambda: DescentConfig(norm_mode="twice"), "norm_mode: got 'twice'"),
    "eta": (lambda: StepSizeConfig(-0.1), "step size: got -0.1"),
    "eta by name": (lambda: StepSizeConfig("0.1"), "step size: got '0.1'"),
    "eta learned how": (lambda: StepSizeConfig(0.1, "head"), "learning: got 'head'"),
    "rank": (lambda: PreconditionerConfig(rank=0), "rank: got 0"),
    "layers": (lambda: model(layers=0), "layers: got 0"),
    "width": (lambda: model(dim=8.0), "dim: got 8.0"),
    "dtype": (lambda: model(dtype="int32"), "dtype: got 'int32'"),
    "no dtype": (lambda: model(dtype="float33"), "dtype: got 'float33'"),
    "eps": (lambda: model(norm_eps=0.0), "norm_eps: got 0.0"),
    "sublayer by name": (lambda: model(attention="cem"), "attention: got 'cem'.*CEMConfig"),
    "energy as sublayer": (lambda: model(mlp=ElementwiseConfig(4)), "mlp: got .*CEMConfig"),
    "family": (lambda: TransformerConfig.tiny("gpt"), "family: got 'gpt'"),
}

CALLS = {
    "heads that do not divide": (lambda: make(InteractionConfig(3)), "got 3 for width 8"),
    "heads of MHA": (lambda: Transformer(model(attention=MHAConfig(3)), rngs=nnx.Rngs(0)), "got 3"),
    "an energy's name": (lambda: make("attention"), "energy: got 'attention'"),
    "a config's class": (lambda: make(MemoryConfig), "energy: got .*expected the config"),
    "CEMAttention": (
        lambda: CEMAttention(D, ElementwiseConfig(4), rngs=nnx.Rngs(0)),
        "expected InteractionConfig",
    ),
    "CEMMLP": (lambda: CEMMLP(D, MemoryConfig(4), rngs=nnx.Rngs(0)), "expected ElementwiseConfig"),
    "width of zero": (lambda: CEMLayer(0, MemoryConfig(4), rngs=nnx.Rngs(0)), "dim: got 0"),
    "layer dtype": (lambda: make(dtype="int8"), "dtype: got 'int8'"),
    "rule": (lambda: make(transformation=optax.adam), "transformation: got <function adam"),
    "rank of h": (lambda: make()(h(L, D)), r"h: got shape \(5, 8\).*x\[None\]"),
    "width of h": (lambda: make()(h(B, L, 7)), r"h: got shape \(2, 5, 7\).*D = 8"),
    "dtype of h": (lambda: make()(h(dtype=jnp.int32)), "h: got dtype int32"),
    "h of lists": (lambda: make()([[1.0]]), "h: got list"),
    "T below one": (lambda: make()(h(), steps=0), "steps: got 0"),
    "T as a float": (lambda: make()(h(), steps=2.0), "steps: got 2.0"),
    "sites of a tuple": (lambda: make()(h(), (h(B, L), h(B, L))), "sites: got tuple"),
    "sites of lists": (lambda: make()(h(), Sites([0], [1])), "sites.position: got list"),
    "shape of sites": (lambda: make()(h(), Sites.dense(B, 4)), r"got shape \(2, 4\).*\(2, 5\)"),
    "dtype of sites": (
        lambda: make()(h(), Sites(h(B, L), h(B, L))),
        "sites.position: got dtype float32",
    ),
    "tokens": (
        lambda: Transformer(model(), rngs=nnx.Rngs(0))(jnp.ones((B, L))),
        "tokens: got .*float32.*integer",
    ),
    "a row of tokens": (
        lambda: Transformer(model(), rngs=nnx.Rngs(0))(jnp.ones(L, jnp.int32)),
        r"tokens: got shape \(5,\)",
    ),
    "summed energy": (
        lambda: step(lambda u: jnp.sum(bowl(u))),
        r"energy: got shape \(\).*\(2, 5\)",
    ),
    "unsummed energy": (lambda: step(lambda u: u**2), r"energy: got shape \(2, 5, 8\)"),
    "two energies": (lambda: step(lambda u: (bowl(u), bowl(u))), "energy: got tuple"),
    "low precision": (
        lambda: step(lambda u: bowl(u).astype(jnp.bfloat16)),
        "energy: got dtype bfloat16.*float32",
    ),
    "steps of descend": (lambda: step(bowl, steps=-1), "steps: got -1"),
    "unroll of descend": (lambda: step(bowl, unroll=0), "unroll: got 0"),
    "no transformation": (lambda: step(bowl, transformation=0.1), "transformation: got 0.1"),
    "L-BFGS": (lambda: step(bowl, transformation=optax.lbfgs()), "line search"),
    "Polyak": (lambda: step(bowl, transformation=optax.polyak_sgd()), "line search"),
    "L-BFGS in a layer": (lambda: make(transformation=optax.lbfgs())(h()), "line search"),
    "axes of an activation": (lambda: constrain(h(), "B L"), "axes: got 'B L'"),
    "name of phi": (lambda: activate(h(), "tanh"), "activation: got 'tanh'"),
    "backend of Phi": (lambda: potential(h(), "silu", "x"), "backend: got 'x'"),
    "targets": (
        lambda: nats(h(), jnp.ones((B, 4), jnp.int32), jnp.ones((B, L), bool)),
        r"targets: got shape \(2, 4\)",
    ),
    "mask": (
        lambda: nats(h(), jnp.ones((B, L), jnp.int32), jnp.ones((L,), bool)),
        r"mask: got shape \(5,\)",
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_config_is_refused(name):
    call, message = CONFIGS[name]
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert re.search("expected", str(caught.value))


@pytest.mark.parametrize("name", CALLS)
def test_call_is_refused(name):
    call, message = CALLS[name]
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "expected" in str(caught.value)


TERMS = AttentionTerms(h(B, L, 4, 6), h(B, L, 2, 6), jnp.ones(()))
BAD_TERMS = {
    "query": {"query": h(B, L, 4, 5)},
    "key": {"key": h(B, L, 3, 6)},
    "temperature": {"temperature": jnp.ones(3)},
    "bias": {"bias": h(3, 7)},
    "weight": {"weight": h(B, L, D)},
    "weight, of another width": {"weight": h(B, L, 7), "context": h()},
    "context": {"weight": h(), "context": h(B, L + 1, D)},
    "context_query": {"context_query": h(B, L, 4, 2), "context_key": h(B, L, 2, 3)},
}


@pytest.mark.parametrize("name", BAD_TERMS)
def test_operand_of_attention_is_refused(name):
    sites = Sites.dense(B, L)
    with pytest.raises(ValueError, match=f"{name.split(',')[0]}.*got.*expected"):
        attention_energy(TERMS._replace(**BAD_TERMS[name]), sites, sites, Visible())


def test_backend_and_sites_of_attention_are_refused():
    sites = Sites.dense(B, L)
    with pytest.raises(ValueError, match="backend: got 'flash'"):
        attention_energy(TERMS, sites, sites, Visible(), backend="flash")
    with pytest.raises(ValueError, match="key_sites: got"):
        attention_energy(TERMS, sites, Sites.dense(B, 3), Visible())


class Mutating(Energy):
    """Counts its calls, in a parameter or in a plain attribute."""

    def __init__(self, how):
        self.how = how
        self.calls = nnx.Param(jnp.zeros(())) if how == "parameter" else 0

    def __call__(self, u, context):
        if self.how == "parameter":
            self.calls[...] += 1.0
        else:
            self.calls = self.calls + 1
        return bowl(u)


class MutatingConfig:
    def __init__(self, how):
        self.how = how

    def build(self, dim, *, rngs):
        return Mutating(self.how)


@pytest.mark.parametrize("how", ["parameter", "attribute"])
def test_energy_that_mutates_state_is_refused(how):
    layer = CEMLayer(D, MutatingConfig(how), rngs=nnx.Rngs(0))
    for run in (layer, jax.jit(layer), lambda h: layer.run(h, trace=True)):
        with pytest.raises(ValueError, match=r"mutates its own state.*expected a pure function"):
            run(h())


class Buffered(Energy):
    def __init__(self, dim, *, rngs):
        self.mean = nnx.Variable(jnp.zeros(dim))


def test_energy_with_more_than_parameters_is_refused():
    with pytest.raises(ValueError, match=r"Buffered with the array or variable mean, expected par"):
        CEMLayer(D, EnergyOf(Buffered), rngs=nnx.Rngs(0))


@pytest.mark.parametrize("rule", [optax.sgd(1.0), optax.adam(0.1)], ids=["sgd", "adam"])
def test_a_rule_with_a_minus_sign_of_its_own_is_refused(rule):
    with pytest.raises(ValueError, match=r"against the gradient.*expected.*scale_by_adam"):
        CEMLayer(D, InteractionConfig(2), transformation=rule, rngs=nnx.Rngs(0))
    kept = optax.chain(optax.scale_by_adam(), optax.trace(0.9))
    CEMLayer(D, InteractionConfig(2), transformation=kept, rngs=nnx.Rngs(0))


def test_a_live_position_without_gradient_does_not_spoil_training():
    rule = optax.clip_by_global_norm(1.0)
    layer = CEMLayer(D, ElementwiseConfig(6), transformation=rule, rngs=nnx.Rngs(0))
    gradients = nnx.grad(lambda layer: jnp.sum(layer(h().at[0, 0].set(0.0))))(layer)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(nnx.state(gradients)))


def test_energy_without_a_value_is_refused():
    class Nothing(Energy):
        pass

    with pytest.raises(ValueError, match="Nothing: got no __call__"):
        step(lambda u: Nothing()(u, ()))


def test_more_steps_than_learned_step_sizes_are_refused():
    per_step = cases.layer(InteractionConfig(2), step_size=StepSizeConfig(0.1, "step"))
    assert per_step(h(), steps=1).shape == (B, L, D)
    with pytest.raises(ValueError, match=r"steps: got 3 with 2 .*learn='layer'"):
        per_step(h(), steps=3)


def test_energy_wrapped_in_a_layer_config_is_accepted():
    assert model(mlp=CEMConfig(ElementwiseConfig(4))).mlp.energy.features == 4
