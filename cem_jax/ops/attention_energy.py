"""The log-sum-exp energy of queries against keys, with attention as its given derivative.

``jax.grad`` of the energy then *is* one attention call, and the training derivative one attention
backward. What a backend must give is log-sum-exp, readout and mean; the rule is here, once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cem_jax.ops import attention_blockwise, attention_reference
from cem_jax.ops.attention_backend import AttentionBackend, choose, kernel, refusal
from cem_jax.ops.attention_kernel import attended_by
from cem_jax.ops.attention_tangent import moving
from cem_jax.ops.attention_terms import Attended, AttentionTerms, energy_of
from cem_jax.ops.constrain import by_parts
from cem_jax.ops.visibility import Sites, Visible

Attend = Callable[[Visible, AttentionTerms, Sites, Sites], Attended]
"""A backend: one pass over the keys, differentiable as often as it promises."""

_READ_OUT = ("query", "weight")


def attention_energy(
    terms: AttentionTerms,
    query_sites: Sites,
    key_sites: Sites,
    visible: Visible,
    backend: AttentionBackend = "auto",
) -> Float[Array, "B L"]:
    """The energy of each position, summed over heads; equations (2), (4), (5) and (5b).

    eps_i = -sum_h tau log sum_j exp(s_hij / tau + b_h[i - j] + c'_hij),
    s_hij = q_hi . k_j + w_i . c_j,

    over the j that ``visible`` allows; a row that sees nothing has energy 0 and derivative 0.

    Args:
        terms: queries, keys and the optional terms.
        query_sites: ``[B, L]`` positions and segments of the queries.
        key_sites: ``[B, S]`` positions and segments of the keys.
        visible: the rule of visibility, static.
        backend: every one but ``"plain"``, which JAX differentiates with no custom rule under it,
            carries the derivative
            d eps = -(o . dq + m . dw) + (the terms in keys, context, bias and tau),
            o = sum_j p_j k_j, m = sum_j p_j c_j. ``"reference"`` and ``"blockwise"`` are
            differentiable to any order; a kernel twice. `ops.attention_backend` lists them and
            what ``"auto"`` chooses.

    Returns:
        ``[B, L]``, float32 or wider.

    Raises:
        ValueError: for a backend that is unknown or cannot compute these operands here, or heads,
            widths and lengths that do not fit.
    """
    _check(terms, query_sites, key_sites)
    query_sites, key_sites = visible.read(query_sites), visible.read(key_sites)
    if backend == "plain":
        return attention_reference.energy(terms, query_sites, key_sites, visible)
    operands = visible, terms, query_sites, key_sites
    if backend == "auto":
        backend = choose(backend, *operands).backend
    reason = refusal(backend, *operands)
    if reason is not None:
        raise ValueError(
            f"attention backend: got {backend!r}, expected one that can compute these operands, "
            f"and it cannot: {reason} Use 'auto'."
        )
    return _given(backend)(*operands)


def with_given_derivative(attended: Attend, smooth: Attend) -> Callable[..., Array]:
    """The energy whose derivative in (q, w) is what a pass over the keys reads out.

    Args:
        attended: the backend's pass.
        smooth: a pass in pure JAX, for the derivative in keys, context, bias, context scores and
            tau, so that it can be differentiated on.
    """

    @functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
    def energy(visible: Visible, terms: AttentionTerms, query: Sites, key: Sites) -> Array:
        return energy_of(terms, attended(visible, terms, query, key).log_sum)

    @functools.partial(energy.defjvp, symbolic_zeros=True)
    def rule(visible: Visible, primals: Any, tangents: Any) -> tuple[Array, Array]:
        terms, query, key = primals
        value = energy(visible, terms, query, key)
        change = moving(tangents[0])
        derivative = jnp.zeros_like(value)
        if any(name in change for name in _READ_OUT):
            found = attended(visible, terms, query, key)
            for name, slope in zip(_READ_OUT, (found.readout, found.mean), strict=True):
                if name in change:
                    derivative -= _inner(slope, change.pop(name))
        if change:
            still = {name: getattr(terms, name) for name in change}

            def value_at(moved: dict[str, Array]) -> Array:
                moved_terms = terms._replace(**moved)
                return energy_of(moved_terms, smooth(visible, moved_terms, query, key).log_sum)

            derivative += jax.jvp(value_at, (still,), (change,))[1]
        return value, derivative

    return energy


def _inner(slope: Array | None, tangent: Array) -> Float[Array, "B L"]:
    """The inner product over all axes but batch and position."""
    assert slope is not None
    product = slope * tangent.astype(slope.dtype)
    return jnp.sum(product, axis=tuple(range(2, product.ndim)))


@functools.cache
def _given(backend: AttentionBackend) -> Callable[..., Array]:
    """The energy with a given derivative, one for each backend."""
    if backend == "reference":
        return with_given_derivative(attention_reference.attended, attention_reference.attended)
    smooth = _by_parts(attention_blockwise.attended)
    return with_given_derivative(
        smooth if backend == "blockwise" else _by_parts(attended_by(kernel(backend))), smooth
    )


def _by_parts(attended: Attend) -> Attend:
    """A backend that goes through tiles of queries, on each device's own queries and heads."""

    def spread(visible: Visible, terms: AttentionTerms, query: Sites, key: Sites) -> Attended:
        # Names of axes, in the places of arrays.
        site: Any = Sites
        result: Any = Attended
        axes = terms.axes()
        operands = axes, site("B L", "B L"), site("B S", "B S")
        found = result("B H L", "B L H K", axes.weight)
        # Heads too: the mean that they share would be added up over devices for every tile.
        part = by_parts(functools.partial(attended, visible), operands, found, over="B L H G")
        return part(terms, query, key)

    return spread


def _check(terms: AttentionTerms, query_sites: Sites, key_sites: Sites) -> None:
    q, k = terms.query.shape, terms.key.shape
    if len(q) != 4 or len(k) != 4 or q[0] != k[0] or q[3] != k[3] or q[2] % k[2]:
        raise ValueError(
            f"query, key: got shapes {q} and {k}, expected [B, L, H, K] and [B, S, G, K] with "
            f"equal B and K, and H a multiple of G."
        )
    for name, sites, shape in (
        ("query_sites", query_sites, q[:2]),
        ("key_sites", key_sites, k[:2]),
    ):
        if sites.position.shape != shape or sites.segment.shape != shape:
            raise ValueError(
                f"{name}: got {sites.position.shape} and {sites.segment.shape}, expected {shape}."
            )
    for first, second in (("weight", "context"), ("context_query", "context_key")):
        if (getattr(terms, first) is None) != (getattr(terms, second) is None):
            raise ValueError(f"{first}, {second}: got one of them, expected both or neither.")
    batch, length, heads, _ = q
    _expect("temperature", terms.temperature, "[] or [H]", (), (heads,))
    if terms.bias is not None:
        _expect("bias", terms.bias, "[H, W]", (heads, *terms.bias.shape[1:2]))
    if terms.weight is not None and terms.context is not None:
        width = terms.context.shape[-1]
        _expect("context", terms.context, "[B, S, D]", (*k[:2], width))
        shapes = (batch, length, width), (batch, length, heads, width)
        _expect("weight", terms.weight, "[B, L, D] or [B, L, H, D]", *shapes)
    if terms.context_query is not None and terms.context_key is not None:
        width = terms.context_key.shape[-1]
        _expect("context_query", terms.context_query, "[B, L, H, C]", (*q[:3], width))
        _expect("context_key", terms.context_key, "[B, S, G, C]", (*k[:3], width))


def _expect(name: str, value: Array, meaning: str, *shapes: tuple[int, ...]) -> None:
    if value.shape not in shapes:
        raise ValueError(
            f"{name}: got shape {value.shape}, expected {meaning}, here "
            f"{' or '.join(map(str, shapes))}."
        )
