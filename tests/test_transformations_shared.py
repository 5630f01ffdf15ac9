"""What every inner transformation of the list must be, on the low-rank energy with two steps."""

import functools

import cases
import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import B, D, L
from flax import nnx

from cem_jax import Sites

over = pytest.mark.parametrize("name", list(cases.TRANSFORMATIONS))


def build(name, **options):
    return cases.layer(cases.ENERGY["low-rank"].config, **cases.TRANSFORMATIONS[name](), **options)


@functools.cache
def compiled(name):
    built = build(name)

    @cases.traced_once
    def run(h, sites):
        return built.run(h, sites, trace=True)

    return built, run


def hidden():
    return cases.normal("h", B, L, D)


def same(first, second):
    assert np.asarray(first).tobytes() == np.asarray(second).tobytes()


@over
def test_neither_future_nor_another_example_nor_another_document_is_seen(name):
    _, run = compiled(name)
    h, dense, packed = hidden(), Sites.dense(B, L), cases.packed()
    before = run(h, dense).x
    for i in range(1, L):
        same(before[:, :i], run(h.at[:, i].mul(50.0), dense).x[:, :i])
    same(before[0], run(h.at[1].mul(50.0), dense).x[0])
    same(run(h, packed).x[0, 3:], run(h.at[0, :3].mul(50.0), packed).x[0, 3:])


@over
def test_scan_equals_optax_in_python_one_position_at_a_time(name):
    built, run = compiled(name)
    h, sites = hidden(), cases.packed()
    context = built.energy.condition(built.norm(h), sites)
    slope = jax.jit(jax.grad(lambda u: jnp.sum(built.energy(u, context))))
    rule = built.transformation()
    update = jax.jit(lambda g, state, x, step: rule.update(g, state, x, step=step))
    x = np.array(h)
    state = {place: rule.init(h[place]) for place in np.ndindex(B, L)}
    for step in range(2):
        g = slope(built.norm(jnp.asarray(x)))
        for place in state:
            moved, state[place] = update(g[place], state[place], x[place], step)
            x[place] += moved
    np.testing.assert_allclose(run(h, sites).x, x, rtol=1e-5, atol=1e-5)


@over
def test_jit_changes_nothing_and_empty_rows_stay(name):
    built, run = compiled(name)
    h, sites = hidden(), cases.packed()
    result = run(h, sites)
    np.testing.assert_allclose(built(h, sites), result.x, rtol=1e-5, atol=1e-5)
    assert not result.energies[:, 1, 3:].any()
    if name != "decay":  # weight decay moves every row, by its meaning
        same(result.x[1, 3:], h[1, 3:])


@pytest.mark.slow
@over
def test_training_derivative_is_finite_and_the_same_with_remat(name):
    sites, weight = cases.packed(), cases.normal("weight", B, L, D)
    layers = [build(name, remat=remat) for remat in ("none", "full")]
    params = cases.split(layers[0])[1]

    def loss(graph, params, h):
        return jnp.sum(weight * nnx.merge(graph, params)(h, sites))

    graphs = [cases.split(layer)[0] for layer in layers]
    both = jax.jit(lambda *at: [jax.grad(loss, (1, 2))(graph, *at) for graph in graphs])
    kept, recomputed = both(params, hidden())
    chex.assert_trees_all_close(kept, recomputed, rtol=1e-4, atol=1e-4)
    for leaf in jax.tree.leaves(kept):
        assert np.isfinite(leaf).all()
        assert np.any(leaf)


# Adam's first steps are signs, and bfloat16 does not keep those of small entries.
@pytest.mark.parametrize("name", [name for name in cases.TRANSFORMATIONS if name != "adam"])
def test_bfloat16_is_near_float32(name):
    _, run = compiled(name)
    narrow, sites = build(name, dtype="bfloat16"), Sites.dense(B, L)
    wide = run(hidden(), sites).x
    change = np.linalg.norm(wide - hidden())
    assert np.linalg.norm(narrow(hidden(), sites) - wide) <= 0.05 * change
