"""The backward pass of the Triton kernels: from strips of queries to the cotangents of operands."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cem_jax.ops.attention_terms import Attended, AttentionTerms
from cem_jax.ops.kernels.pallas_gpu_backward import mean_pull, pull_keys, pull_queries
from cem_jax.ops.kernels.pallas_gpu_layout import Layout, Problem, Pull, fill, lay_out, padded_width
from cem_jax.ops.kernels.pallas_gpu_planes import summed_pull
from cem_jax.ops.kernels.pallas_gpu_strips import Strip, Whole, plane, product, strips, whole
from cem_jax.ops.pieces import cut, join
from cem_jax.ops.visibility import Sites, Visible

_FOR_TEMPERATURE = frozenset({"query", "weight"})


def backward(
    interpret: bool,
    visible: Visible,
    terms: AttentionTerms,
    query: Sites,
    key: Sites,
    found: Attended,
    cotangent: Attended,
    names: tuple[str, ...],
) -> dict[str, Array]:
    """The cotangents of the named operands, in their dtypes; see `Kernel`.

    Args:
        interpret: whether to run without a GPU.
        visible: the rule of visibility, static.
        terms: queries, keys and the optional terms, without a bias.
        query: ``[B, L]`` positions and segments of the queries.
        key: ``[B, S]`` those of the keys.
        found: log-sum-exp, readout and mean of these.
        cotangent: theirs.
        names: of the operands.
    """
    layout = lay_out(visible, terms, interpret)
    shared = whole(layout, terms, key)
    needed = frozenset(names) | (_FOR_TEMPERATURE if "temperature" in names else frozenset())

    def step(sums: dict[str, Array], strip: Strip) -> tuple[dict[str, Array], dict[str, Array]]:
        pulled = _pull_strip(layout, shared, strip, needed)
        return {name: old + pulled.pop(name) for name, old in sums.items()}, pulled

    there = {"key": shared.keys.main, "context": shared.context, "context_key": shared.keys.score}
    start = {name: jnp.zeros(x.shape, jnp.float32) for name, x in there.items() if name in needed}
    pulling = _pulling(layout, terms, strips(layout, terms, query), found, cotangent)
    sums, pieces = jax.lax.scan(step, start, pulling)
    pulled = sums | {name: join(x, terms.query.shape[1]) for name, x in pieces.items()}
    if "temperature" in names:
        pulled["temperature"] = _pull_temperature(terms, pulled)
    return {name: _like(pulled[name], getattr(terms, name)) for name in names}


def _pulling(
    layout: Layout, terms: AttentionTerms, cuts: Strip, found: Attended, cotangent: Attended
) -> Strip:
    """The strips, with what comes back to each."""
    back, mean = cotangent.readout, cotangent.mean
    own = jnp.swapaxes(jnp.sum(back * found.readout, axis=-1), 1, 2)
    narrow = fill(back.astype(terms.key.dtype), back.shape[1], padded_width(back.shape[-1]))
    pull = Pull(
        log_sum=cut(found.log_sum, layout.strip, 2),
        shift=cut(own - cotangent.log_sum, layout.strip, 2),
        cotangent=cut(narrow, layout.strip),
        plane=None,
    )
    if mean is not None and terms.context is not None:
        mean = cut(mean.astype(terms.context.dtype), layout.strip)
    return cuts._replace(pull=pull, mean=mean)


def _pull_strip(
    layout: Layout, shared: Whole, strip: Strip, needed: frozenset[str]
) -> dict[str, Array]:
    """What one strip gives to its queries and to all keys."""
    problem, pull = shared.at(strip), strip.pull
    if strip.mean is not None:
        pull = pull._replace(plane=plane(strip.mean, shared.context))
        pull = pull._replace(shift=pull.shift + mean_pull(layout, problem, pull))
    pulled: dict[str, Array] = {}
    if {"query", "context_query"} & needed:
        names = "query", "context_query"
        pulled |= zip(names, pull_queries(layout, problem, pull), strict=False)
    if {"key", "context_key"} & needed:
        found = [_sum_groups(x, layout.group) for x in pull_keys(layout, problem, pull)]
        pulled |= zip(("key", "context_key"), found, strict=False)
    if {"weight", "context"} & needed and strip.mean is not None:
        pulled |= _pull_diagonal(layout, shared.context, problem, pull, strip)
    return {name: x for name, x in pulled.items() if name in needed}


def _pull_diagonal(
    layout: Layout, context: Array, problem: Problem, pull: Pull, strip: Strip
) -> dict[str, Array]:
    """dw_i = sum_j ds_ij c_j / tau and dc_j = sum_i ds_ij w_i / tau + p_ij dm_i, heads summed."""
    p, ds = summed_pull(layout, problem, pull, context.dtype)
    to_context = product("bls,bld->bsd", ds, strip.weight) + product("bls,bld->bsd", p, strip.mean)
    return {"weight": product("bls,bsd->bld", ds, context), "context": to_context}


def _pull_temperature(terms: AttentionTerms, pulled: dict[str, Array]) -> Float[Array, ""]:
    """-sum ds (q . k + w . c) / tau^2, from the cotangents of q and w, which have the sums in j."""
    total = jnp.float32(0)
    for x, change in ((terms.query, pulled["query"]), (terms.weight, pulled.get("weight"))):
        if x is not None and change is not None:
            total += jnp.sum(x.astype(jnp.float32) * change[..., : x.shape[-1]])
    return -total / terms.temperature.astype(jnp.float32)


def _sum_groups(x: Float[Array, "B S H N"], group: int) -> Float[Array, "B S G N"]:
    batch, length, heads, width = x.shape
    return jnp.sum(x.reshape(batch, length, heads // group, group, width), axis=3)


def _like(x: Array, operand: Array) -> Array:
    """Without what was filled up, in the operand's dtype."""
    return x[tuple(slice(n) for n in operand.shape)].astype(operand.dtype)
