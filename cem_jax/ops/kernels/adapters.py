"""What adapters to a library's attention share: folding tau, and its own backward pass as ours."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cem_jax.ops import attention_blockwise
from cem_jax.ops.attention_tangent import Operands, cotangents
from cem_jax.ops.attention_terms import Attended, AttentionTerms
from cem_jax.ops.visibility import Sites, Visible

Readout = Callable[[Visible, AttentionTerms, Sites, Sites], Float[Array, "B L H K"]]
"""The readout of a library's attention, differentiable once by its own rule."""


def cooled(terms: AttentionTerms) -> Float[Array, "B L H K"]:
    """Queries over tau, divided in float32, for libraries whose scale must be static."""
    wide = terms.query.astype(jnp.float32) / terms.temperature.astype(jnp.float32)
    return wide.astype(terms.query.dtype)


def backward_through(readout: Readout) -> Callable[..., Operands]:
    """The backward pass of a kernel, from a library's differentiable readout.

    The library computes its forward pass once more for it. Its rule knows no cotangent of the
    log-sum-exp. In the energy's own derivatives that is zero; where it is not, blocks in pure JAX
    add what it gives.
    """

    def backward(
        visible: Visible,
        terms: AttentionTerms,
        query: Sites,
        key: Sites,
        found: Attended,
        cotangent: Attended,
        names: tuple[str, ...],
    ) -> Operands:
        def along(change: Operands) -> Array:
            return readout(visible, terms._replace(**change), query, key)

        still = {name: getattr(terms, name) for name in names}
        out, pull = jax.vjp(along, still)
        (pulled,) = pull(cotangent.readout.astype(out.dtype))
        alone = Attended(cotangent.log_sum, jnp.zeros_like(cotangent.readout))

        def with_log_sum(pulled: Operands) -> Operands:
            # Anew: that of a library may be rounded to 16 bits.
            exact = attention_blockwise.attended(visible, terms, query, key)
            more = cotangents(visible, terms, query, key, exact, alone, names)
            return jax.tree.map(jnp.add, pulled, more)

        moves = jnp.any(cotangent.log_sum != 0)
        return jax.lax.cond(moves, with_log_sum, lambda pulled: pulled, pulled)

    return backward
