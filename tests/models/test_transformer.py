"""The whole decoder: causality, mixes, precision, and what is compiled."""

import functools

import cases
import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from cem_jax import (
    CEMConfig,
    DescentConfig,
    ElementwiseConfig,
    InteractionConfig,
    MHAConfig,
    PreconditionerConfig,
    Sites,
    StepSizeConfig,
    SwiGLUConfig,
    Transformer,
    TransformerConfig,
    Visible,
)
from cem_jax.models.transformer import STRAIGHT

B, L, D, V = 2, 5, 8, 13
DESCENT = DescentConfig(2, step_size=StepSizeConfig(0.3), preconditioner=PreconditionerConfig(2))
ATTENTION = {
    "cem": CEMConfig(InteractionConfig(2, diagonal="shared"), DESCENT),
    "mha": MHAConfig(4, key_heads=2),
    "mha-windowed": MHAConfig(2, visible=Visible(window=2)),
}
MLP = {"cem": CEMConfig(ElementwiseConfig(12), DESCENT), "swiglu": SwiGLUConfig(12)}
MIXES = [*((a, m) for a in ("cem", "mha") for m in MLP), ("mha-windowed", "swiglu")]
over = pytest.mark.parametrize("mix", MIXES, ids="+".join)


def config(mix, **options):
    options = {"layers": 2, "tie_embeddings": mix[0] == "cem"} | options
    return TransformerConfig(V, D, attention=ATTENTION[mix[0]], mlp=MLP[mix[1]], **options)


@functools.cache
def build(mix, **options):
    return cases.randomize(Transformer(config(mix, **options), rngs=nnx.Rngs(0)), scale=0.1)


def abstract(mix, **options):
    """The model as a graph definition and shapes: nothing is drawn."""
    return cases.split(
        nnx.eval_shape(lambda: Transformer(config(mix, **options), rngs=nnx.Rngs(0)))
    )


@functools.cache
def compiled(mix):
    return cases.traced_once(build(mix))


def tokens():
    return jax.random.randint(jax.random.key(0), (B, L), 0, V)


def changed(row, start, stop):
    return tokens().at[row, start:stop].add(1) % V


def same(first, second):
    assert np.asarray(first).tobytes() == np.asarray(second).tobytes()


@over
def test_neither_future_nor_another_example_nor_another_document_is_seen(mix):
    run, dense, packed = compiled(mix), Sites.dense(B, L), cases.packed()
    before, apart = run(tokens(), dense), run(tokens(), packed)
    for i in range(1, L):
        after = run(changed(0, i, i + 1), dense)
        same(before[:, :i], after[:, :i])
        same(before[1], after[1])
        assert (before[0, i] != after[0, i]).any()
    same(apart[0, 3:], run(changed(0, 0, 3), packed)[0, 3:])
    same(apart[0, :3], run(changed(0, 3, 5), packed)[0, :3])
    same(apart[1, :3], run(changed(1, 3, 5), packed)[1, :3])
    assert np.isfinite(apart).all()


@over
def test_jit_changes_nothing(mix):
    model = build(mix)
    jitted = compiled(mix)(tokens(), Sites.dense(B, L))
    np.testing.assert_allclose(model(tokens()), jitted, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("mix", [("cem", "cem"), ("mha", "swiglu")], ids="+".join)
def test_training_derivative_is_finite_and_the_same_with_remat(mix):
    _, params = cases.split(build(mix))
    graphs = [abstract(mix, remat=remat)[0] for remat in ("none", "full")]

    def loss(graph, params):
        return jnp.mean(nnx.merge(graph, params)(tokens(), cases.packed()) ** 2)

    programs = [str(jax.make_jaxpr(lambda p, g=g: loss(g, p))(params)) for g in graphs]
    assert ["remat" in p or "checkpoint" in p for p in programs] == [False, True]
    both = jax.jit(lambda params: [jax.grad(lambda p, g=g: loss(g, p))(params) for g in graphs])
    kept, recomputed = both(params)
    chex.assert_trees_all_close(kept, recomputed, rtol=1e-4, atol=1e-5)
    for leaf in jax.tree.leaves(kept):
        assert np.isfinite(leaf).all()
        assert np.any(leaf)


@pytest.mark.parametrize("mix", [("cem", "cem"), ("mha", "swiglu")], ids="+".join)
def test_bfloat16_runs_with_float32_parameters(mix):
    graph, shapes = abstract(mix, dtype="bfloat16")
    for leaf in jax.tree.leaves(shapes):
        assert leaf.dtype == jnp.float32
    narrow = nnx.merge(graph, cases.split(build(mix))[1])
    run = jax.jit(lambda t: (narrow(t), narrow.hidden(t)))
    logits, hidden = run(tokens())
    assert logits.dtype == jnp.bfloat16
    assert hidden.dtype == jnp.float32
    wide = compiled(mix)(tokens(), Sites.dense(B, L))
    error = np.linalg.norm(logits.astype(jnp.float32) - wide) / np.linalg.norm(wide)
    assert error <= 0.03


def test_program_does_not_grow_with_depth():
    def size(layers):
        graph, params = abstract(("cem", "cem"), layers=layers)
        program = jax.make_jaxpr(lambda p: nnx.merge(graph, p)(tokens()))(params)
        return len(str(program).split())

    assert size(2) == size(5)


@pytest.mark.parametrize(
    ("layers", "remat", "step_remat", "unroll"),
    [
        (STRAIGHT, "none", "none", STRAIGHT),
        (STRAIGHT + 1, "none", "none", 1),
        (2, "full", "none", 1),
        (2, "none", "products", 1),
    ],
)
def test_shallow_models_are_straight_code_unless_something_is_computed_again(
    layers, remat, step_remat, unroll
):
    attention = CEMConfig(InteractionConfig(2), DescentConfig(1, remat=step_remat))
    made = TransformerConfig(V, D, layers, attention, SwiGLUConfig(12), remat=remat)
    graph, params = cases.split(nnx.eval_shape(lambda: Transformer(made, rngs=nnx.Rngs(0))))
    tokens = jnp.zeros((1, 3), jnp.int32)
    program = jax.make_jaxpr(lambda p: nnx.merge(graph, p)(tokens))(params)
    scans = [e for e in program.jaxpr.eqns if e.primitive.name == "scan"]
    assert [scan.params["unroll"] for scan in scans] == [unroll]


def test_layers_have_parameters_of_their_own():
    stack = cases.split(build(("cem", "cem")))[1]["blocks"]["attention"]["energy"]["wq"]
    assert stack.shape[0] == 2
    assert (stack[0] != stack[1]).any()


def test_tied_readout_is_the_embedding():
    tied, free = build(("cem", "cem")), build(("mha", "swiglu"))
    hidden = cases.normal("h", B, L, D)
    np.testing.assert_allclose(tied.logits(hidden), hidden @ tied.embedding[...].T, rtol=1e-5)
    np.testing.assert_allclose(free.logits(hidden), hidden @ free.readout[...].T, rtol=1e-5)


def test_padding_query_of_the_baseline_keeps_its_input():
    common = {"norm_eps": 1e-5, "dtype": "float32"}
    layer = ATTENTION["mha"].build(D, rngs=nnx.Rngs(0), **common)
    h = cases.normal("h", B, L, D)
    same(layer(h, cases.packed())[1, 3:], h[1, 3:])


def test_the_baseline_reads_rows_that_are_not_packed_as_one_document():
    h, sites = cases.normal("h", B, L, D), cases.packed()
    one = sites._replace(segment=jnp.ones_like(sites.segment))
    free, packed = (
        MHAConfig(2, visible=Visible(packed=packed)).build(
            D, norm_eps=1e-5, dtype="float32", rngs=nnx.Rngs(0)
        )
        for packed in (False, True)
    )
    np.testing.assert_array_equal(free(h, sites), packed(h, one))
    assert (free(h, sites) != packed(h, sites)).any()


def test_equal_shapes_compile_once():
    model = build(("cem", "cem"))

    @jax.jit
    @chex.assert_max_traces(n=1)
    def forward(params, tokens):
        return nnx.merge(cases.split(model)[0], params)(tokens)

    for _ in range(3):
        forward(cases.split(model)[1], tokens())


def test_a_looped_model_goes_through_its_blocks_again_and_shares_them():
    once, twice = build(("cem", "swiglu")), build(("cem", "swiglu"), loops=2)
    chex.assert_trees_all_equal(cases.split(once)[1], cases.split(twice)[1])
    block, stack = nnx.split(once.blocks)
    h, sites = once.embedding[...][tokens()], Sites.dense(B, L)
    for layer in (0, 1, 0, 1):
        h = nnx.merge(block, jax.tree.map(lambda leaf, n=layer: leaf[n], stack))(h, sites)
    np.testing.assert_allclose(twice(tokens()), once.logits(once.norm(h)), rtol=1e-4, atol=1e-4)
    assert jnp.max(jnp.abs(twice(tokens()) - once(tokens()))) > 1e-2
