"""The product whose derivatives transpose nothing: equal to tensordot, to second order."""

import itertools

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cem_jax.ops.contract import contract

OVER = {1: (3,), 2: (3, 4)}
forms = pytest.mark.parametrize(
    ("axes", "x_end", "y_end"), list(itertools.product(OVER, ("back", "front"), ("back", "front")))
)


def operands(axes, x_end, y_end):
    over = OVER[axes]
    x = cases.normal("x", *((2, 5, *over) if x_end == "back" else (*over, 2, 5)))
    return x, cases.normal("y", *((6, *over) if y_end == "back" else (*over, 6)))


def both(axes, x_end, y_end):
    """The function, and the same by `jax.numpy.tensordot`."""
    over_x = range(2, 2 + axes) if x_end == "back" else range(axes)
    over_y = range(1, 1 + axes) if y_end == "back" else range(axes)
    return (
        lambda x, y: contract(x, y, axes, x_end=x_end, y_end=y_end),
        lambda x, y: jnp.tensordot(x, y, (list(over_x), list(over_y))),
    )


@forms
def test_value_and_derivatives_of_both_orders_equal_tensordot(axes, x_end, y_end, x64):
    x, y = operands(axes, x_end, y_end)

    def everything(product):
        def total(x, y):
            return jnp.sum(jnp.sin(product(x, y)))

        def slope(x, y):
            return jnp.sum(jnp.cos(jax.grad(total)(x, y)))

        second = jax.grad(slope, argnums=(0, 1))(x, y)
        forward = jax.jvp(jax.grad(total), (x, y), (jnp.cos(x), jnp.cos(y)))[1]
        return product(x, y), jax.grad(total, argnums=(0, 1))(x, y), second, forward

    mine, theirs = (jax.jit(lambda p=p: everything(p))() for p in both(axes, x_end, y_end))
    for one, other in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@forms
def test_derivatives_transpose_nothing(axes, x_end, y_end):
    """Neither the gradient nor that of a gradient, as an energy's training derivative is."""
    x, y = operands(axes, x_end, y_end)
    product, plain = both(axes, x_end, y_end)

    def outer(product):
        def slope(x, y):
            return jnp.sum(jnp.cos(jax.grad(lambda x: jnp.sum(jnp.sin(product(x, y))))(x)))

        return str(jax.make_jaxpr(jax.grad(slope, argnums=(0, 1)))(x, y))

    assert "transpose[" in outer(plain)
    assert "transpose[" not in outer(product)


@forms
@pytest.mark.parametrize("mapped", ["x", "y", "both"])
def test_under_vmap_it_is_the_product_of_each(axes, x_end, y_end, mapped):
    product, plain = both(axes, x_end, y_end)
    x, y = operands(axes, x_end, y_end)
    over = (0 if mapped != "y" else None, -1 if mapped != "x" else None)
    xs = x if over[0] is None else jnp.stack([x, 2 * x, -x])
    ys = y if over[1] is None else jnp.stack([y, y - 1, 3 * y], axis=-1)
    one, other = (jax.vmap(p, in_axes=over, out_axes=1)(xs, ys) for p in (product, plain))
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    if mapped != "both":
        text = str(jax.make_jaxpr(jax.vmap(product, in_axes=over))(xs, ys))
        assert "contract[" in text
        assert "dot_general[" not in text


def test_operands_meet_in_the_wider_dtype():
    x, y = jnp.ones((2, 3), jnp.bfloat16), jnp.ones((3, 4))
    assert contract(x, y).dtype == jnp.float32


@pytest.mark.parametrize(
    ("shapes", "kwargs", "message"),
    [
        (((2, 3), (4, 5)), {}, r"\(2, 3\) and \(4, 5\).*1 back axes.*1 front axes"),
        (((3,), (3, 4)), {"axes": 2}, "2 back axes"),
        (((2, 3), (3, 4)), {"axes": 0}, "axes"),
        (((2, 3), (3, 4)), {"x_end": "left"}, "x_end"),
    ],
)
def test_what_does_not_fit_is_refused(shapes, kwargs, message, hook_off):
    with pytest.raises(ValueError, match=message):
        contract(*map(jnp.ones, shapes), **kwargs)
