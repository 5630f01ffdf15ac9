"""Policies by name: what the training derivative computes again."""

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cem_jax import CEMConfig, DescentConfig, InteractionConfig, TransformerConfig
from cem_jax.ops.contract import contract
from cem_jax.ops.remat import rematerialised

PRODUCTS = {"none": 5, "products": 5, "full": 7}
"""Two forward, and of each the derivative by its matrix, of the second also that by its input; with
"full" both are computed again."""


def sub(x, matrices):
    for matrix in matrices:
        x = jnp.sin(contract(x, matrix))
    return x


@pytest.mark.parametrize("policy", PRODUCTS)
def test_the_policy_says_what_is_computed_again(policy):
    x, matrices = cases.normal("x", 1, 3, 4), [cases.normal(n, 4, 4) for n in "ab"]

    def loss(matrices):
        return jnp.sum(rematerialised(sub, policy)(x, matrices))

    text = str(jax.make_jaxpr(jax.grad(loss))(matrices))
    counted = text.count("= contract[")
    sines = text.count("= sin ")
    assert (counted, sines > 2) == (PRODUCTS[policy], policy != "none")
    plain = jax.grad(lambda matrices: jnp.sum(sub(x, matrices)))(matrices)
    for one, other in zip(jax.grad(loss)(matrices), plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_products_of_the_library_are_kept_and_batched_ones_are_not():
    """With "products": of a weight's product the value is kept, of attention's it is not."""
    x, weight = cases.normal("x", 2, 3, 4), cases.normal("w", 4, 4)

    def kept(function):
        loss = jax.grad(lambda x: jnp.sum(rematerialised(function, "products")(x)))
        return str(jax.make_jaxpr(loss)(x)).count("dot_general")

    # Forward, and its derivative; computed again, once more.
    assert kept(lambda x: jnp.sin(x @ weight)) == 2
    assert kept(lambda x: jnp.sin(jnp.einsum("bij,bkj->bik", x, jnp.cos(x)))) > 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: DescentConfig(remat="some"),
        lambda: DescentConfig(remat=True),
        lambda: TransformerConfig(
            8, 8, 1, CEMConfig(InteractionConfig(2)), CEMConfig(InteractionConfig(2)), remat="all"
        ),
    ],
)
def test_an_unknown_policy_is_refused(make, hook_off):
    with pytest.raises(ValueError, match=r"remat: got .* expected one of"):
        make()
