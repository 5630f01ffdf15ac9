"""The log-sum-exp energy: both backends, all operands, derivatives of both orders and modes."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters.partial_eval import dce_jaxpr
from jax.test_util import check_grads
from operands import PACKED, VARIANTS, B, C, G, H, K, L, W, terms

from cem_jax import Sites, Visible
from cem_jax.ops import attention_tiles
from cem_jax.ops.attention_energy import attention_energy
from cem_jax.ops.attention_terms import AttentionTerms


def energy(made, visible=Visible(), backend="reference", sites=PACKED):  # noqa: B008 - frozen
    return attention_energy(made, sites, sites, visible, backend)


def by_loops(terms, sites, visible):
    """(2) to (5b) from already projected operands, in loops."""
    t = AttentionTerms(*(None if x is None else np.asarray(x, np.float64) for x in terms))
    position, segment = map(np.asarray, sites)
    tau = np.broadcast_to(t.temperature, (H,))
    energy = np.zeros((B, L))
    for b, i, h in np.ndindex(B, L, H):
        exponents = []
        for j in range(L):
            distance = position[b, i] - position[b, j]
            near = abs(distance) < (visible.window or L)
            if segment[b, i] != segment[b, j] or segment[b, i] == 0 or distance < 0 or not near:
                continue
            g = h // (H // G)
            score = t.query[b, i, h] @ t.key[b, j, g]
            if t.weight is not None:
                weight = t.weight[b, i] if t.weight.ndim == 3 else t.weight[b, i, h]
                score += weight @ t.context[b, j]
            exponent = score / tau[h]
            if t.bias is not None:
                exponent += t.bias[h, min(distance, W - 1)]
                exponent += t.context_query[b, i, h] @ t.context_key[b, j, g] / np.sqrt(C)
            exponents.append(exponent)
        if exponents:
            energy[b, i] -= tau[h] * np.log(np.sum(np.exp(exponents)))
    return energy


BACKENDS = ("reference", "plain", "blockwise")
over = pytest.mark.parametrize("name", VARIANTS)
shipped = pytest.mark.parametrize("backend", ["reference", "blockwise"])


@over
def test_value_equals_the_loops(name, x64):
    made = VARIANTS[name]()
    options = [(Visible(window=window), how) for window in (None, 1) for how in BACKENDS]
    values = jax.jit(lambda made: [energy(made, *option) for option in options])(made)
    for (visible, _), value in zip(options, values, strict=True):
        np.testing.assert_allclose(value, by_loops(made, PACKED, visible), rtol=1e-10, atol=1e-10)


@pytest.mark.slow
@over
def test_derivatives_of_first_and_second_order_equal_the_plain_backend(name, x64):
    """In every operand at once: gradient, reverse over reverse, forward over reverse."""
    made = VARIANTS[name]()
    direction = jax.tree.map(lambda x: cases.normal("direction", *x.shape), made)

    def derivatives(made, backend):
        def total(made):
            return jnp.sum(jnp.sin(energy(made, backend=backend)))

        def along(made):
            slopes = jax.tree.leaves(jax.grad(total)(made))
            return sum(map(jnp.vdot, slopes, jax.tree.leaves(direction)))

        return (
            jax.grad(total)(made),
            jax.grad(along)(made),
            jax.jvp(jax.grad(total), (made,), (direction,))[1],
            jax.jvp(total, (made,), (direction,))[1],
        )

    both = jax.jit(lambda made: [derivatives(made, backend) for backend in BACKENDS])
    given, plain, tiled = both(made)
    for mine in (given, tiled):
        for one, other in zip(jax.tree.leaves(mine), jax.tree.leaves(plain), strict=True):
            assert np.isfinite(one).all()
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_second_derivative_in_tau_is_right(x64):
    """Against central differences: a residual under stop_gradient would lose half of it."""
    made = terms("shared")

    def total(tau):
        return jnp.sum(energy(made._replace(temperature=tau)))

    def mixed(tau):
        def of_query(query):
            return jnp.sum(energy(made._replace(temperature=tau, query=query)))

        return jax.grad(of_query)(made.query)

    check_grads(jax.jit(total), (made.temperature,), order=2, modes=["fwd", "rev"])
    check_grads(jax.jit(mixed), (made.temperature,), order=1, modes=["fwd", "rev"])


def test_gradient_in_the_query_is_attention_with_keys_as_values():
    """The inner derivative is one attention call: equal to the library's, to the last bits."""
    made = terms(full=False)._replace(temperature=jnp.sqrt(jnp.float32(K)))

    @jax.jit
    def both(query):
        total = jnp.sum(energy(made._replace(query=query), sites=Sites.dense(B, L)))
        return total, jax.nn.dot_product_attention(query, made.key, made.key, is_causal=True)

    slope = jax.jit(jax.grad(lambda query: both(query)[0]))(made.query)
    np.testing.assert_allclose(-slope, both(made.query)[1], rtol=1e-6, atol=1e-6)


def test_inner_derivative_holds_two_products():
    """Scores and readout: what nobody asks for, the value and derivatives in the keys, is gone."""
    made = terms(full=False)
    slope = jax.grad(lambda query: jnp.sum(energy(made._replace(query=query))))
    closed = jax.make_jaxpr(slope)(made.query)
    live, _ = dce_jaxpr(closed.jaxpr, [True])
    assert str(live).count("dot_general") == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_that_are_not_packed_are_one_document_each(backend):
    made = terms("shared")
    one = PACKED._replace(segment=jnp.ones_like(PACKED.segment))
    free = energy(made, Visible(packed=False), backend)
    np.testing.assert_array_equal(free, energy(made, Visible(packed=False), backend, one))
    np.testing.assert_allclose(free, energy(made, Visible(), backend, one), rtol=1e-6)
    assert (free != energy(made, Visible(), backend)).any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_without_positions_have_no_energy(backend):
    made = jax.tree.map(lambda x: x[:, :0] if x.ndim > 2 else x, terms("shared"))
    assert energy(made, backend=backend, sites=Sites.dense(B, 0)).shape == (B, 0)


@shipped
def test_huge_logits_stay_finite(backend):
    made = terms("shared")
    made = made._replace(query=1e4 * made.query, key=1e4 * made.key)
    total = jax.value_and_grad(lambda made: jnp.sum(energy(made, backend=backend)))
    results = jax.jit(total)(made)
    for leaf in jax.tree.leaves(results):
        assert np.isfinite(leaf).all()


@shipped
def test_bfloat16_operands_give_float32_energies(backend):
    made = jax.tree.map(lambda x: x.astype(jnp.bfloat16), terms("shared"))
    both = jax.jit(lambda *both: [energy(made, backend=backend) for made in both])
    value, wide = both(made, terms("shared"))
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(value, wide, rtol=0.03, atol=0.1)


@shipped
def test_attention_over_more_keys_than_queries(backend):
    """The last query of a row, alone against all keys, as decoding will ask."""
    made, dense = terms("head"), Sites.dense(B, L)
    whole = attention_energy(made, dense, dense, Visible(), backend)
    last = made._replace(
        **{n: getattr(made, n)[:, -1:] for n in ("query", "weight", "context_query")}
    )
    sites = jax.tree.map(lambda x: x[:, -1:], dense)
    np.testing.assert_allclose(
        attention_energy(last, sites, dense, Visible(), backend),
        whole[:, -1:],
        rtol=1e-6,
        atol=1e-6,
    )


@pytest.mark.parametrize("weight", ["head", "shared"])
def test_blocks_that_nobody_sees_are_not_computed(weight, monkeypatch):
    """Not even multiplied by zero: a NaN in one does not reach the tiles before it."""
    monkeypatch.setattr(attention_tiles, "_ROWS", 2)
    made, dense = terms(weight), Sites.dense(B, L)
    broken = made._replace(key=made.key.at[:, 2:].set(jnp.nan))

    @jax.jit
    def both(made):
        def total(made):
            value = attention_energy(made, dense, dense, Visible(), "blockwise")
            return jnp.sum(jnp.sin(value[:, :2])), value

        return jax.grad(total, has_aux=True)(made)

    (slope, value), (right, _) = both(broken), both(made)
    assert np.isfinite(value[:, :2]).all()
    np.testing.assert_array_equal(slope.query[:, :2], right.query[:, :2])


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(attention_tiles, "_ROWS", 3)
    monkeypatch.setattr(attention_tiles, "_COLUMNS", 2)
