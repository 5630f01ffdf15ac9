"""What every energy of the list must be, in a layer of two plain steps.

One compiled function per energy serves most tests: the shapes are equal throughout.
"""

import functools

import cases
import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import B, D, L
from flax import nnx

from cem_jax import InteractionConfig, Sites

DENSE = Sites.dense(B, L)


@functools.cache
def compiled(name):
    """The layer, its parameters, and its jitted run with a trace, which may be traced once."""
    built = cases.layer(cases.ENERGY[name].config)
    graph, params = cases.split(built)

    @cases.traced_once
    def run(params, h, sites):
        return nnx.merge(graph, params).run(h, sites, trace=True)

    return built, params, lambda h, sites=DENSE: run(params, h, sites)


def hidden():
    return cases.normal("h", B, L, D)


def same(first, second):
    """Equal bytes."""
    assert np.asarray(first).tobytes() == np.asarray(second).tobytes()


@cases.over(cases.ENERGIES)
def test_output_is_finite_and_of_the_stated_shape(name):
    _, _, run = compiled(name)
    for sites in (DENSE, cases.packed()):
        result = run(hidden(), sites)
        assert result.x.shape == (B, L, D)
        assert result.energies.shape == (3, B, L)
        assert result.gradient_norms.shape == (2, B, L)
        for value in result:
            assert value.dtype == jnp.float32
            assert np.isfinite(value).all()


@cases.over(cases.ENERGIES)
def test_future_does_not_reach_the_past(name):
    _, _, run = compiled(name)
    before = run(hidden())
    for i in range(1, L):
        after = run(hidden().at[:, i].add(1.0))
        same(before.x[:, :i], after.x[:, :i])
        same(before.energies[:, :, :i], after.energies[:, :, :i])
        assert (before.x[:, i] != after.x[:, i]).any()


@cases.over(cases.ENERGIES)
def test_examples_do_not_reach_each_other(name):
    _, _, run = compiled(name)
    before, after = run(hidden()), run(hidden().at[1].add(1.0))
    same(before.x[0], after.x[0])
    same(before.energies[:, 0], after.energies[:, 0])


@cases.over(cases.ENERGIES)
def test_documents_of_a_row_do_not_reach_each_other(name):
    _, _, run = compiled(name)
    sites = cases.packed()
    before = run(hidden(), sites)
    first = run(hidden().at[0, :3].add(1.0), sites)
    same(before.x[0, 3:], first.x[0, 3:])
    second = run(hidden().at[0, 3:].add(1.0), sites)
    same(before.x[0, :3], second.x[0, :3])
    padding = run(hidden().at[1, 3:].add(1.0), sites)
    same(before.x[1, :3], padding.x[1, :3])


@cases.over(cases.ENERGIES)
def test_packed_document_equals_itself_alone(name):
    _, _, run = compiled(name)
    h = hidden()
    packed = run(h, cases.packed()).x[0, 3:]
    alone = run(h.at[0, :2].set(h[0, 3:])).x[0, :2]
    np.testing.assert_allclose(packed, alone, rtol=1e-6, atol=1e-6)


@cases.over([case for case in cases.ENERGIES if isinstance(case.config, InteractionConfig)])
def test_row_that_sees_nothing_has_no_energy_and_no_update(name):
    _, _, run = compiled(name)
    result = run(hidden(), cases.packed())
    same(result.x[1, 3:], hidden()[1, 3:])
    assert not result.energies[:, 1, 3:].any()
    assert not result.gradient_norms[:, 1, 3:].any()


@cases.over(cases.ENERGIES)
def test_jit_changes_nothing(name):
    built, _, run = compiled(name)
    np.testing.assert_allclose(built(hidden()), run(hidden()).x, rtol=1e-5, atol=1e-5)


@cases.over(cases.ENERGIES)
def test_scan_equals_a_python_loop_for_one_two_and_three_steps(name):
    built, _, run = compiled(name)
    h, sites = hidden(), cases.packed()
    context = built.energy.condition(built.norm(h), sites)
    eta = built.step_size(jnp.int32(0))
    slope = jax.jit(jax.grad(lambda u: jnp.sum(built.energy(u, context))))
    scanned = jax.jit(lambda h: [built(h, sites, steps=steps) for steps in (1, 3)])(h)
    loop = [h]
    for _ in range(3):
        loop.append(loop[-1] - eta * slope(built.norm(loop[-1])))
    for steps, x in ((1, scanned[0]), (2, run(h, sites).x), (3, scanned[1])):
        np.testing.assert_allclose(x, loop[steps], rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@cases.over(cases.ENERGIES)
def test_training_derivative_is_finite_and_the_same_with_remat(name):
    built, params, _ = compiled(name)
    again = cases.layer(cases.ENERGY[name].config, remat="full")
    sites, weight = cases.packed(), cases.normal("weight", B, L, D)

    def loss(graph, params, h):
        return jnp.sum(weight * nnx.merge(graph, params)(h, sites))

    graphs = [cases.split(layer)[0] for layer in (built, again)]
    both = jax.jit(lambda *at: [jax.grad(loss, (1, 2))(graph, *at) for graph in graphs])
    kept, recomputed = both(params, hidden())
    chex.assert_trees_all_close(kept, recomputed, rtol=1e-5, atol=1e-5)
    for leaf in jax.tree.leaves(kept):
        assert np.isfinite(leaf).all()
        assert np.any(leaf), "a parameter that no gradient reaches"


@cases.over(cases.ENERGIES)
def test_bfloat16_is_near_float32_and_keeps_wide_energies(name):
    built = cases.layer(cases.ENERGY[name].config, dtype="bfloat16")
    narrow = jax.jit(lambda h: built.run(h, trace=True))(hidden())
    wide = compiled(name)[2](hidden())
    assert narrow.x.dtype == narrow.energies.dtype == jnp.float32
    change = np.linalg.norm(wide.x - hidden())
    assert np.linalg.norm(narrow.x - wide.x) <= 0.03 * change
    # Eight bits of mantissa, in sums of some tens of products.
    np.testing.assert_allclose(narrow.energies, wide.energies, rtol=0.05, atol=0.1)
