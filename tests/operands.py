"""Operands of a log-sum-exp energy, every optional one included, in packed rows."""

import cases
import jax.numpy as jnp

from cem_jax import Sites
from cem_jax.ops.attention_terms import AttentionTerms

B, L, H, G, K, D, W, C = 2, 4, 4, 2, 3, 5, 3, 2
PACKED = Sites(
    jnp.array([[0, 1, 0, 1], [0, 1, 0, 0]], jnp.int32),
    jnp.array([[1, 1, 2, 2], [1, 1, 0, 0]], jnp.int32),
)


def terms(weight="head", temperature=(), full=True):
    """Every operand, or queries, keys and tau alone."""
    plain = AttentionTerms(
        query=cases.normal("q", B, L, H, K),
        key=cases.normal("k", B, L, G, K),
        temperature=1.0 + cases.normal("tau", *temperature) ** 2,
    )
    if not full:
        return plain
    return plain._replace(
        weight=cases.normal("w", *((B, L, H, D) if weight == "head" else (B, L, D))),
        context=cases.normal("c", B, L, D),
        bias=cases.normal("b", H, W),
        context_query=cases.normal("cq", B, L, H, C),
        context_key=cases.normal("ck", B, L, G, C),
    )


VARIANTS = {
    "plain terms": lambda: terms(full=False),
    "diagonal per head": lambda: terms("head"),
    "shared diagonal": lambda: terms("shared"),
    "tau per head": lambda: terms("shared", (H,)),
}
