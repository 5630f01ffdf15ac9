"""Our Triton kernels, interpreted: both passes equal the reference, for every term they take."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import operands
import pytest

from cem_jax import Sites, Visible
from cem_jax.ops import attention_blockwise
from cem_jax.ops.attention_energy import attention_energy, with_given_derivative
from cem_jax.ops.attention_kernel import attended_by
from cem_jax.ops.kernels import pallas_gpu, pallas_gpu_layout
from cem_jax.ops.kernels.pallas_gpu_scores import dot

KERNEL = pallas_gpu.kernel(interpret=True)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Several tiles and strips of a short row, the last of each in part filled up."""
    monkeypatch.setattr(pallas_gpu_layout, "LARGEST_TILE", 16)
    monkeypatch.setattr(pallas_gpu_layout, "STRIP", 32)


@pytest.mark.parametrize(
    ("visible", "parts"),
    [
        (Visible(), {}),
        (Visible(causal=False), {"score": True}),
        (Visible(), {"diagonal": True}),
        (Visible(causal=False, window=5), {"diagonal": True, "score": True}),
    ],
    ids=["plain", "context score, both ways", "shared diagonal", "everything, in a window"],
)
def test_both_passes_equal_the_reference(
    visible, parts, terms, packed, by_kernel, by_reference, agree
):
    asked = visible, terms(**parts), packed, packed
    agree(by_kernel(KERNEL, *asked), by_reference(*asked), 1e-5)


@pytest.mark.slow
def test_fewer_queries_than_keys(terms, packed, by_kernel, by_reference, agree):
    queries = Sites(*(x[:, -21:] for x in packed))
    asked = Visible(window=7), terms(length=21), queries, packed
    agree(by_kernel(KERNEL, *asked), by_reference(*asked), 1e-5)


def test_bfloat16_stays_near_float32(terms, packed, by_kernel, by_reference, agree):
    made = terms(diagonal=True)
    narrow = jax.tree.map(lambda x: x.astype(jnp.bfloat16), made)
    narrow = narrow._replace(temperature=made.temperature)
    # The same rounded operands in float32; what differs is the rounding of p, ds and cotangents.
    wide = jax.tree.map(lambda x: x.astype(jnp.float32), narrow)
    mine = by_kernel(KERNEL, Visible(), narrow, packed, packed)
    assert {x.dtype.name for x in mine[0]} == {"float32"}
    assert {x.dtype.name for x in mine[1].values()} == {"bfloat16", "float32"}
    agree(mine, by_reference(Visible(), wide, packed, packed), 2e-2)


def test_tiles_that_nobody_sees_are_not_read(terms):
    sites = Sites.dense(2, 40)
    made = terms(diagonal=True)
    # Even with probability zero, a tile that is read would spread its NaNs.
    made = made._replace(key=made.key.at[:, 32:].set(jnp.nan))
    found = jax.jit(lambda made: KERNEL.forward(Visible(), made, sites, sites))(made)
    assert np.isfinite(found.readout[:, :32]).all()
    assert np.isfinite(found.mean[:, :32]).all()
    assert np.isnan(found.readout[:, 32:]).all()


@pytest.mark.slow
def test_derivatives_of_the_energy_equal_the_plain_backend():
    made = operands.terms("shared")._replace(bias=None, context_query=None, context_key=None)
    made = jax.tree.map(lambda x: x.astype(jnp.float32), made)
    direction = jax.tree.map(lambda x: cases.normal("direction", *x.shape), made)
    direction = jax.tree.map(lambda x: x.astype(jnp.float32), direction)
    given = with_given_derivative(attended_by(KERNEL), attention_blockwise.attended)

    def plain(visible, made, query, key):
        return attention_energy(made, query, key, visible, "plain")

    def derivatives(energy):
        def total(made):
            return jnp.sum(jnp.sin(energy(Visible(), made, operands.PACKED, operands.PACKED)))

        def along(made):
            slopes = jax.tree.leaves(jax.grad(total)(made))
            return sum(map(jnp.vdot, slopes, jax.tree.leaves(direction)))

        once, over = jax.jvp(jax.value_and_grad(total), (made,), (direction,))
        return once, over, jax.grad(along)(made)

    one, other = jax.jit(lambda: [derivatives(energy) for energy in (given, plain)])()
    for mine, theirs in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "precision"),
    [("float32", (jax.lax.Precision.HIGHEST,) * 2), ("bfloat16", None)],
)
def test_products_of_float32_are_not_rounded(dtype, precision):
    tile = jnp.zeros((16, 16), dtype)
    (product,) = jax.make_jaxpr(lambda a, b: dot(a, b, (1, 1)))(tile, tile).eqns
    assert product.params["precision"] == precision
    assert product.outvars[0].aval.dtype == jnp.float32


def wide(x):
    return x.astype(jnp.float64)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: t._replace(bias=jnp.zeros((4, 3))), "relative-position bias"),
        (lambda t: t._replace(temperature=jnp.ones(4)), "temperature per head"),
        (lambda t: t._replace(weight=jnp.ones((2, 40, 4, 7))), "diagonal per head"),
        (lambda t: t._replace(query=wide(t.query)), "query in float64, key in float32"),
        (lambda t: t._replace(context=wide(t.context)), "diagonal in float64"),
        (lambda t: t._replace(query=jnp.zeros((2, 40, 4, 257), "float32")), "query of width 257"),
        (lambda t: t._replace(context_query=jnp.zeros((1, 1, 4, 300), "float32")), "width 300"),
    ],
)
def test_what_it_cannot_do_is_refused(change, reason, terms, packed, x64):
    made = jax.tree.map(lambda x: x.astype(jnp.float32), terms(diagonal=True, score=True))
    assert KERNEL.refusal(Visible(), made, packed, packed) is None
    found = KERNEL.refusal(Visible(), change(made), packed, packed)
    assert found is not None
    assert reason in found
    assert found.endswith(".")


def test_without_a_gpu_the_compiled_kernel_is_refused_and_never_interpreted(terms, packed):
    made = terms()
    assert "'cpu', expected 'gpu'" in pallas_gpu.KERNEL.refusal(Visible(), made, packed, packed)
    with pytest.raises(ValueError, match="interpret"):
        pallas_gpu.KERNEL.forward(Visible(), made, packed, packed)
