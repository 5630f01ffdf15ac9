"""Cross-entropy without whole logits: the token sum, its derivatives, and the memory it takes."""

import functools

import cases
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from cem_jax.ops.readout import readout_cross_entropy, readout_nats

B, L, D, V = 2, 5, 3, 7
MASK = jnp.array([[True, True, False, False, True], [True, True, True, False, False]])
TARGETS = jnp.array([[0, 1, 2, -100, 6], [5, 4, 3, 0, V]])
"""Out of range where the mask is false."""
chunks = pytest.mark.parametrize("chunk", [1, 2, 5, 64])


def operands():
    return cases.normal("hidden", B, L, D), cases.normal("matrix", V, D)


def whole(hidden, matrix):
    """From whole logits, by the library."""
    logits = jnp.einsum("bld,vd->blv", hidden, matrix)
    safe = jnp.where(MASK, TARGETS, 0)
    nats = optax.softmax_cross_entropy_with_integer_labels(logits, safe)
    return jnp.sum(jnp.where(MASK, nats, 0))


def test_value_equals_the_loops(x64):
    hidden, matrix = map(np.asarray, operands())
    expected = np.zeros((B, L))
    for b, i in np.ndindex(B, L):
        if MASK[b, i]:
            row = matrix @ hidden[b, i]
            expected[b, i] = np.log(np.exp(row).sum()) - row[TARGETS[b, i]]
    nats, tokens = readout_cross_entropy(*operands(), TARGETS, MASK, chunk=2)
    np.testing.assert_allclose(nats, expected.sum(), rtol=1e-10)
    assert tokens == 6
    each = readout_nats(*operands(), TARGETS, MASK, chunk=2)
    np.testing.assert_allclose(each, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@chunks
def test_derivatives_of_both_orders_and_modes_equal_those_of_whole_logits(chunk, x64):
    direction = cases.normal("dh", B, L, D), cases.normal("dm", V, D)

    def everything(loss):
        def along(*point):
            slopes = jax.grad(loss, argnums=(0, 1))(*point)
            return sum(map(jnp.vdot, slopes, direction))

        point = operands()
        forward = jax.jvp(jax.grad(loss, argnums=(0, 1)), point, direction)[1]
        return jax.grad(loss, (0, 1))(*point), jax.grad(along, (0, 1))(*point), forward

    def chunked(hidden, matrix):
        return jnp.square(readout_cross_entropy(hidden, matrix, TARGETS, MASK, chunk=chunk)[0])

    def each(hidden, matrix):
        return jnp.square(jnp.sum(readout_nats(hidden, matrix, TARGETS, MASK, chunk=chunk)))

    right = everything(lambda *point: jnp.square(whole(*point)))
    for loss in (chunked, each):
        for one, other in zip(
            jax.tree.leaves(jax.jit(lambda loss=loss: everything(loss))()),
            jax.tree.leaves(right),
            strict=True,
        ):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_what_is_masked_moves_nothing_and_sums_are_wide():
    hidden, matrix = (x.astype(jnp.bfloat16) for x in operands())
    nats, tokens = readout_cross_entropy(hidden, matrix, TARGETS, MASK)
    assert nats.dtype == tokens.dtype == jnp.float32
    slope = jax.grad(lambda h: readout_cross_entropy(h, matrix, TARGETS, MASK)[0])(hidden)
    assert slope.dtype == jnp.bfloat16
    np.testing.assert_array_equal(jnp.any(slope != 0, axis=-1), MASK)


def nats(*arguments, chunk):
    return jnp.sum(readout_nats(*arguments, chunk=chunk))


def total(*arguments, chunk):
    return readout_cross_entropy(*arguments, chunk=chunk)[0]


@pytest.mark.parametrize("loss", [total, nats])
def test_logits_are_never_whole(loss):
    """A gradient holds a few chunks of logits, however long the rows."""
    batch, length, dim, vocab, chunk = 2, 1024, 16, 4096, 32
    f32, shape = jnp.float32, jax.ShapeDtypeStruct
    arguments = shape((batch, length, dim), f32), shape((vocab, dim), f32)
    places = shape((batch, length), jnp.int32), shape((batch, length), jnp.bool_)

    slope = jax.grad(functools.partial(loss, chunk=chunk), argnums=(0, 1))
    compiled = jax.jit(slope).lower(*arguments, *places).compile()
    bound = 4 * (4 * batch * chunk * vocab) + 4 * (4 * vocab * dim)
    assert compiled.memory_analysis().temp_size_in_bytes < bound
    assert bound < 4 * batch * length * vocab / 4
