"""How a fused kernel becomes a backend: a forward pass, and a backward pass as its transpose."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.custom_derivatives import linear_call
from jaxtyping import Array

from cem_jax.ops.attention_tangent import moving, tangent
from cem_jax.ops.attention_terms import Attended, AttentionTerms
from cem_jax.ops.visibility import Sites, Visible


class Kernel(NamedTuple):
    """A fused kernel as a record. Its passes are never differentiated.

    Attributes:
        name: of the backend.
        refusal: maps ``(visible, terms, query, key)`` to why the kernel cannot compute them, or
            None where it can; from shapes, dtypes and the platform.
        forward: maps ``(visible, terms, query, key)`` to `Attended`, zero where a row sees nothing.
        backward: maps ``(visible, terms, query, key, found, cotangent, names)`` to the cotangents
            of the named operands of `AttentionTerms`, in their dtypes.
    """

    name: str
    refusal: Callable[[Visible, AttentionTerms, Sites, Sites], str | None]
    forward: Callable[[Visible, AttentionTerms, Sites, Sites], Attended]
    backward: Callable[..., dict[str, Array]]


def attended_by(kernel: Kernel) -> Callable[..., Attended]:
    """The kernel as a backend.

    Value, gradient and reverse over reverse run through the kernel; in forward mode, and so in
    forward over reverse, derivatives are those of the blockwise backend. A third derivative raises
    a `ValueError` that names the reference backend. A derivative of the readout cannot be vmapped:
    JAX has no rule for that of its `linear_call`.
    """

    @functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
    def attended(visible: Visible, terms: AttentionTerms, query: Sites, key: Sites) -> Attended:
        return kernel.forward(visible, terms, query, key)

    @functools.partial(attended.defjvp, symbolic_zeros=True)
    def rule(visible: Visible, primals: Any, tangents: Any) -> tuple[Attended, Attended]:
        found = attended(visible, *primals)
        change = moving(tangents[0])

        def along(fixed: Any, change: dict[str, Array]) -> Attended:
            (terms, query, key), found = fixed
            return tangent(visible, terms, query, key, found, change)

        def back(fixed: Any, cotangent: Attended) -> dict[str, Array]:
            (terms, query, key), found = fixed
            names = tuple(sorted(change))
            return kernel.backward(visible, terms, query, key, found, cotangent, names)

        fixed = _final(kernel.name)((primals, found))
        return found, linear_call(along, back, fixed, change)

    return attended


def _final(name: str) -> Callable[[Any], Any]:
    """The identity, which refuses to be differentiated."""

    @jax.custom_jvp
    def final(values: Any) -> Any:
        return values

    @functools.partial(final.defjvp, symbolic_zeros=True)
    def refuse(primals: Any, tangents: Any) -> tuple[Any, Any]:
        raise ValueError(
            f"attention backend: got a third derivative of the energy through {name!r}, expected "
            f"at most two, since its backward pass is a kernel; use backend='reference'."
        )

    return final
