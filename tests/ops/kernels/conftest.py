"""Operands of more than one tile, and what a kernel's two passes are compared with."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import normal

from cem_jax import Sites
from cem_jax.ops import attention_reference
from cem_jax.ops.attention_terms import AttentionTerms

B, S, H, G, K, D, C = 2, 40, 4, 2, 5, 7, 3


def _terms(length=S, diagonal=False, score=False, width=K):
    made = AttentionTerms(
        query=normal("q", B, length, H, width),
        key=normal("k", B, S, G, width),
        temperature=jnp.float32(1.7),
    )
    if diagonal:
        made = made._replace(weight=normal("w", B, length, D), context=normal("c", B, S, D))
    if score:
        made = made._replace(
            context_query=normal("cq", B, length, H, C), context_key=normal("ck", B, S, G, C)
        )
    return jax.tree.map(lambda x: x.astype(jnp.float32), made)


@pytest.fixture
def terms():
    """Draws queries, ``length`` of them, against S keys, and what else is asked for."""
    return _terms


@pytest.fixture
def packed():
    """Two documents and padding, whose queries see nothing; beside a row of one document."""
    position = np.concatenate([np.arange(18), np.arange(15), np.zeros(S - 33)])
    segment = np.repeat([1, 2, 0], [18, 15, S - 33])
    rows = np.stack([position, np.arange(S)]), np.stack([segment, np.ones(S)])
    return Sites(*(jnp.asarray(x, jnp.int32) for x in rows))


def _by_kernel(kernel, visible, made, query, key, log_sum=True):
    """What a kernel finds, and what its backward pass gives to each operand, by name."""
    found = jax.eval_shape(lambda: attention_reference.attended(visible, made, query, key))
    names = tuple(name for name, value in made._asdict().items() if value is not None)

    # Sites are arguments, as in a training step: they must not be known when it is traced.
    def run(made, query, key, back):
        found = kernel.forward(visible, made, query, key)
        return found, kernel.backward(visible, made, query, key, found, back, names)

    return jax.jit(run)(made, query, key, _cotangents(found, log_sum))


def _by_reference(visible, made, query, key, log_sum=True):
    """The same by whole rows of scores, differentiated by JAX."""

    def run(made, query, key):
        found, pull = jax.vjp(
            lambda made: attention_reference.attended(visible, made, query, key), made
        )
        return found, pull(_cotangents(found, log_sum))[0]._asdict()

    return jax.jit(run)(made, query, key)


def _cotangents(found, log_sum):
    back = jax.tree.map(lambda x: normal(f"back {x.shape}", *x.shape).astype(x.dtype), found)
    return back if log_sum else back._replace(log_sum=jnp.zeros_like(back.log_sum))


@pytest.fixture
def by_kernel():
    """Runs both passes of a kernel."""
    return _by_kernel


@pytest.fixture
def by_reference():
    """Runs both passes of the reference."""
    return _by_reference


def _agree(mine, theirs, tolerance):
    (found, pulled), (true, true_pulled) = mine, theirs
    pairs = {f"found {name}": (x, getattr(true, name)) for name, x in found._asdict().items()}
    pairs |= {f"pulled {name}": (x, true_pulled[name]) for name, x in pulled.items()}
    for name, (one, other) in pairs.items():
        assert (one is None) == (other is None), name
        if one is None:
            continue
        assert one.shape == other.shape, name
        wide = np.asarray(other, np.float32)
        scale = max(1.0, float(np.max(np.abs(wide))))
        np.testing.assert_allclose(
            np.asarray(one, np.float32), wide, rtol=0, atol=tolerance * scale, err_msg=name
        )


@pytest.fixture
def agree():
    """Asserts that what two found agrees, to a tolerance on the scale of each array."""
    return _agree
