"""A fused kernel as a backend: every derivative it promises, and a clear refusal of the next."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from operands import PACKED, VARIANTS, terms

from cem_jax import Visible
from cem_jax.ops import attention_blockwise
from cem_jax.ops.attention_energy import attention_energy, with_given_derivative
from cem_jax.ops.attention_kernel import Kernel, attended_by
from cem_jax.ops.attention_tangent import cotangents


def count_calls():
    """A kernel in pure JAX that says which of its passes ran."""
    calls = []

    def forward(*arguments):
        calls.append("forward")
        return attention_blockwise.attended(*arguments)

    def backward(*arguments):
        calls.append("backward")
        return cotangents(*arguments)

    return calls, Kernel("counting", lambda *_: None, forward, backward)


@pytest.mark.parametrize(
    "name",
    [n if n == "shared diagonal" else pytest.param(n, marks=pytest.mark.slow) for n in VARIANTS],
)
def test_derivatives_of_first_and_second_order_equal_the_plain_backend(name, x64):
    calls, kernel = count_calls()
    given = with_given_derivative(attended_by(kernel), attention_blockwise.attended)
    made = VARIANTS[name]()
    direction = jax.tree.map(lambda x: cases.normal("direction", *x.shape), made)

    def plain(visible, made, query, key):
        return attention_energy(made, query, key, visible, "plain")

    def derivatives(energy):
        def total(made):
            return jnp.sum(jnp.sin(energy(Visible(), made, PACKED, PACKED)))

        def along(made):
            slopes = jax.tree.leaves(jax.grad(total)(made))
            return sum(map(jnp.vdot, slopes, jax.tree.leaves(direction)))

        return (
            total(made),
            jax.grad(total)(made),
            jax.grad(along)(made),
            forward_over_reverse(total),
        )

    def forward_over_reverse(total):
        return jax.jvp(jax.grad(total), (made,), (direction,))[1]

    one, other = jax.jit(lambda: [derivatives(energy) for energy in (given, plain)])()
    for mine, theirs in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-10)
    assert {"forward", "backward"} <= set(calls)


def test_a_third_derivative_names_the_reference_backend():
    _, kernel = count_calls()
    given = with_given_derivative(attended_by(kernel), attention_blockwise.attended)
    made = terms(full=False)

    def total(scale):
        scaled = made._replace(query=scale * made.query)
        return jnp.sum(given(Visible(), scaled, PACKED, PACKED))

    with pytest.raises(ValueError, match=r"third derivative.*'counting'.*backend='reference'"):
        jax.grad(jax.grad(jax.grad(total)))(1.0)
