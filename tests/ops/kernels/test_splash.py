"""The adapter to splash attention: interpreted, lowered for a TPU, and its refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cem_jax import Sites, Visible
from cem_jax.ops.attention_terms import AttentionTerms
from cem_jax.ops.kernels import splash

INTERPRETED = splash.kernel(interpret=True)


@pytest.mark.parametrize(
    "visible", [Visible(), Visible(causal=False, window=4)], ids=["causal", "window to both sides"]
)
def test_both_passes_equal_the_reference(visible, terms, packed, by_kernel, by_reference, agree):
    asked = visible, terms(), packed, packed
    mine = by_kernel(INTERPRETED, *asked, False)
    agree(mine, by_reference(*asked, False), 1e-5)
    padding = np.asarray(packed.segment) == 0
    assert padding.any()
    assert not np.asarray(mine[0].readout)[padding].any()


@pytest.mark.parametrize(
    ("dtype", "length", "width"), [("bfloat16", 640, 64), ("float32", 300, 40)]
)
def test_both_passes_lower_for_a_tpu(dtype, length, width):
    made = AttentionTerms(
        jax.ShapeDtypeStruct((2, length, 4, width), dtype),
        jax.ShapeDtypeStruct((2, length, 2, width), dtype),
        jax.ShapeDtypeStruct((), "float32"),
    )
    sites = Sites(*[jax.ShapeDtypeStruct((2, length), jnp.int32)] * 2)

    def forward(made, sites):
        return splash.KERNEL.forward(Visible(), made, sites, sites)

    def backward(made, sites, found, back):
        names = "query", "key", "temperature"
        return splash.KERNEL.backward(Visible(), made, sites, sites, found, back, names)

    def kernels(function, *shapes):
        module = jax.export.export(jax.jit(function), platforms=["tpu"])(*shapes).mlir_module()
        return module.count("tpu_custom_call")

    found = jax.eval_shape(forward, made, sites)
    assert kernels(forward, made, sites) == 1
    # Its forward pass again, the queries', and the keys'.
    assert kernels(backward, made, sites, found, found) == 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: t._replace(query=t.query[:, :20]), "20 queries and 40 keys"),
        (lambda t: t._replace(query=t.query.astype(jnp.float16)), "query in float16"),
        (lambda t: t._replace(temperature=jnp.ones(4)), "temperature per head"),
        (lambda t: t._replace(bias=jnp.ones((4, 3))), "relative-position bias"),
        (lambda t: t._replace(weight=jnp.ones((2, 40, 7))), "a diagonal"),
        (lambda t: t._replace(context_query=t.query, context_key=t.key), "context score"),
    ],
)
def test_what_it_cannot_do_is_refused(change, reason, terms, packed):
    assert INTERPRETED.refusal(Visible(), terms(), packed, packed) is None
    found = INTERPRETED.refusal(Visible(), change(terms()), packed, packed)
    assert found is not None
    assert reason in found
    assert found.endswith(".")


def test_without_a_tpu_it_is_refused(terms, packed):
    assert "'cpu', expected 'tpu'" in splash.KERNEL.refusal(Visible(), terms(), packed, packed)
