"""Why a kernel cannot compute some operands: what came, and what it expects, as a sentence."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from cem_jax.ops.attention_terms import AttentionTerms


def first(*reasons: str | None) -> str | None:
    """The first reason that there is."""
    return next((reason for reason in reasons if reason is not None), None)


def platform(*known: str) -> str | None:
    """Unless JAX computes on one of the platforms, by default."""
    found = jax.default_backend()
    if found in known:
        return None
    return f"got the platform {found!r}, expected {' or '.join(map(repr, known))}."


def dtypes(terms: AttentionTerms, *known: str) -> str | None:
    """Unless queries and keys, and those of a context score, share one of the dtypes."""
    names = ("query", "key", "context_query", "context_key")
    there = {name: x.dtype.name for name in names if (x := getattr(terms, name)) is not None}
    if len(set(there.values())) == 1 and there["query"] in known:
        return None
    got = ", ".join(f"{name} in {dtype}" for name, dtype in there.items())
    return f"got {got}, expected all of them in one of {', '.join(known)}."


def bias(terms: AttentionTerms) -> str | None:
    """A bias by relative position."""
    return None if terms.bias is None else "got a relative-position bias, expected none."


def context_score(terms: AttentionTerms) -> str | None:
    """A score of the context alone."""
    return None if terms.context_query is None else "got a context score, expected none."


def diagonal(terms: AttentionTerms) -> str | None:
    """A diagonal of any kind."""
    return None if terms.weight is None else "got a diagonal, expected none."


def diagonal_per_head(terms: AttentionTerms) -> str | None:
    """A diagonal of each head's own, and what a wide one would be."""
    if terms.weight is None or terms.context is None or terms.weight.ndim == 3:
        return None
    return "got a diagonal per head, expected none or one that all heads share."


def wide_diagonal(terms: AttentionTerms) -> str | None:
    """A diagonal in more than 32 bits."""
    wide = {x.dtype.name for x in (terms.weight, terms.context) if x is not None}
    if jnp.dtype("float64").name in wide:
        return "got a diagonal in float64, expected float32 or narrower."
    return None


def temperatures(terms: AttentionTerms) -> str | None:
    """A temperature of each head's own."""
    if terms.temperature.ndim == 0:
        return None
    return "got a temperature per head, expected one for all heads."


def lengths(terms: AttentionTerms) -> str | None:
    """Queries that are not the keys' own positions, as far as their numbers tell."""
    queries, keys = terms.query.shape[1], terms.key.shape[1]
    if queries == keys:
        return None
    return f"got {queries} queries and {keys} keys, expected equal numbers."
