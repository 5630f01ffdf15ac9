"""The adapter to cuDNN: what it asks for, its mathematics with XLA in its place, its refusals."""

import jax
import jax.numpy as jnp
import pytest

from cem_jax import Sites, Visible
from cem_jax.ops import attention_reference
from cem_jax.ops.attention_terms import AttentionTerms
from cem_jax.ops.kernels import cudnn
from cem_jax.ops.kernels.cudnn import KERNEL

WHOLE = Visible(packed=False)
DENSE = Sites.dense(2, 40)


@pytest.fixture
def by_xla(monkeypatch):
    """The same call, computed by XLA, in float32."""
    monkeypatch.setattr(cudnn, "IMPLEMENTATION", "xla")


@pytest.mark.parametrize(
    ("visible", "log_sum"),
    [(WHOLE, False), (Visible(packed=False, window=5), True)],
    ids=["causal", "window, and what comes back to the log-sum-exp"],
)
def test_both_passes_equal_the_reference(
    visible, log_sum, terms, by_kernel, by_reference, agree, by_xla
):
    asked = visible, terms(), DENSE, DENSE
    agree(by_kernel(KERNEL, *asked, log_sum), by_reference(*asked, log_sum), 1e-5)


def test_both_ways(terms, agree, by_xla):
    asked = Visible(packed=False, causal=False), terms(), DENSE, DENSE
    agree((KERNEL.forward(*asked), {}), (attention_reference.attended(*asked), {}), 1e-5)


def test_cudnn_is_asked_in_both_passes(monkeypatch):
    asked, computed = [], jax.nn.dot_product_attention

    def spy(*operands, implementation, **options):
        # Without cuDNN, JAX does not even trace it.
        asked.append((implementation, [x.dtype.name for x in operands], options))
        return computed(*operands, implementation="xla", **options)

    monkeypatch.setattr(jax.nn, "dot_product_attention", spy)
    made, names = narrow(), ("query", "key", "temperature")

    def forward(made):
        return KERNEL.forward(WHOLE, made, DENSE, DENSE)

    def backward(made, found):
        return KERNEL.backward(WHOLE, made, DENSE, DENSE, found, found, names)

    found = jax.make_jaxpr(forward, return_shape=True)(made)[1]
    pulled = jax.make_jaxpr(backward, return_shape=True)(made, found)[1]
    options = {"scale": 1.0, "is_causal": True, "local_window_size": None}
    assert asked == [
        ("cudnn", ["bfloat16"] * 3, options | {"return_residual": True}),
        ("cudnn", ["bfloat16"] * 3, options),
    ]
    assert [(x.shape, x.dtype.name) for x in found[:2]] == [
        ((2, 4, 40), "float32"),
        ((2, 40, 4, 8), "float32"),
    ]
    for name in names:
        assert pulled[name].shape == getattr(made, name).shape
        assert pulled[name].dtype == getattr(made, name).dtype


def narrow():
    """Queries and keys that cuDNN takes."""
    query, key = (jnp.zeros((2, 40, heads, 8), jnp.bfloat16) for heads in (4, 2))
    return AttentionTerms(query, key, jnp.ones(()))


@pytest.fixture
def on_cuda(monkeypatch):
    """As if there were a GPU."""

    class Client:
        platform_version = "PJRT C API\ncuda 13000"

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax.extend.backend, "get_backend", Client)


def test_what_it_can_do_is_not_refused(on_cuda):
    for visible in (WHOLE, Visible(packed=False, window=3), Visible(packed=False, causal=False)):
        assert KERNEL.refusal(visible, narrow(), DENSE, DENSE) is None


@pytest.mark.parametrize(
    ("visible", "change", "reason"),
    [
        (Visible(), {}, "packed=False: it knows no segments"),
        (Visible(packed=False, causal=False, window=3), {}, "window to both sides"),
        (WHOLE, {"query": jnp.float32}, "query in float32, key in bfloat16"),
        (WHOLE, {"query": (2, 20, 4, 8)}, "20 queries and 40 keys"),
        (WHOLE, {"query": (2, 40, 4, 12)}, "width 12"),
        (WHOLE, {"query": (2, 40, 4, 136)}, "width 136"),
        (WHOLE, {"temperature": (4,)}, "temperature per head"),
        (WHOLE, {"bias": (4, 3)}, "relative-position bias"),
        (WHOLE, {"weight": (2, 40, 5)}, "a diagonal"),
        (WHOLE, {"context_query": (2, 40, 4, 2), "context_key": (2, 40, 2, 2)}, "context score"),
    ],
)
def test_what_it_cannot_do_is_refused(visible, change, reason, on_cuda):
    made = narrow()
    for name, what in change.items():
        known = isinstance(what, tuple)
        value = jnp.zeros(what, jnp.bfloat16) if known else getattr(made, name).astype(what)
        made = made._replace(**{name: value})
    found = KERNEL.refusal(visible, made, DENSE, DENSE)
    assert found is not None
    assert reason in found
    assert found.endswith(".")


def test_another_platform_is_refused(monkeypatch):
    assert "'cpu', expected 'gpu'" in KERNEL.refusal(WHOLE, narrow(), DENSE, DENSE)

    class Client:
        platform_version = "PJRT C API\nrocm 70000"

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax.extend.backend, "get_backend", Client)
    assert "expected CUDA" in KERNEL.refusal(WHOLE, narrow(), DENSE, DENSE)
