"""Adapter to cuDNN's fused attention, with keys as values. Never run on its hardware.

It knows no segments and no sites: each row is one whole document, ``Visible(packed=False)``, whose
queries stand where its keys do. Positions then count up from the first, and its masks by index are
those of `Visible`.

JAX rounds the log-sum-exp that it returns to the 16 bits of the operands, so values of the energy
carry that error, of up to 0.4 per cent in bfloat16, and so do forward-mode derivatives, which
compute probabilities from it. Gradients of the energy do not use it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
from jaxtyping import Array, Float

from cem_jax.ops.attention_kernel import Kernel
from cem_jax.ops.attention_terms import Attended, AttentionTerms
from cem_jax.ops.kernels import refusals
from cem_jax.ops.kernels.adapters import backward_through, cooled
from cem_jax.ops.visibility import Sites, Visible

IMPLEMENTATION: Any = "cudnn"
"""What `jax.nn.dot_product_attention` is asked for."""

WIDEST = 128
"""The widest head on every GPU that cuDNN's attention supports."""


def forward(visible: Visible, terms: AttentionTerms, query: Sites, key: Sites) -> Attended:
    """Log-sum-exp, rounded to the operands' dtype, and readout.

    Args:
        visible: the rule of visibility, static; not packed.
        terms: queries, keys and one temperature, as `refusal` allows.
        query: ``[B, L]`` sites of the queries, not looked at.
        key: ``[B, S]`` those of the keys, likewise.
    """
    readout, log_sum = jax.nn.dot_product_attention(
        cooled(terms), terms.key, terms.key, return_residual=True, **_options(visible)
    )
    wide = jnp.swapaxes(log_sum, 1, 2).astype(jnp.float32)
    return Attended(wide, readout.astype(jnp.float32))


def refusal(visible: Visible, terms: AttentionTerms, query: Sites, key: Sites) -> str | None:
    """Why cuDNN cannot compute these operands here, or None where it can."""
    return refusals.first(
        _platform(),
        refusals.dtypes(terms, "float16", "bfloat16"),
        refusals.temperatures(terms),
        refusals.bias(terms),
        refusals.diagonal(terms),
        refusals.context_score(terms),
        refusals.lengths(terms),
        _width(terms),
        _visible(visible),
    )


def _platform() -> str | None:
    other = refusals.platform("gpu")
    if other is not None:
        return other
    version = jax.extend.backend.get_backend().platform_version
    return None if "cuda" in version.lower() else f"got {version!r}, expected CUDA."


def _width(terms: AttentionTerms) -> str | None:
    width = terms.query.shape[-1]
    if width % 8 == 0 and width <= WIDEST:
        return None
    return f"got heads of width {width}, expected a multiple of 8, at most {WIDEST}."


def _visible(visible: Visible) -> str | None:
    if visible.packed:
        return "got Visible(packed=True), expected packed=False: it knows no segments."
    if visible.window is not None and not visible.causal:
        return "got a window to both sides, expected a causal one or none."
    return None


def _readout(
    visible: Visible, terms: AttentionTerms, query: Sites, key: Sites
) -> Float[Array, "B L H K"]:
    # Not asked for the log-sum-exp, it is differentiable.
    return jax.nn.dot_product_attention(cooled(terms), terms.key, terms.key, **_options(visible))


def _options(visible: Visible) -> dict[str, Any]:
    window = None
    if visible.window is not None:
        # How many to the left and right, the own position not counted.
        window = visible.window - 1, 0 if visible.causal else visible.window - 1
    return {
        "scale": 1.0,
        "is_causal": visible.causal,
        "local_window_size": window,
        "implementation": IMPLEMENTATION,
    }


KERNEL = Kernel("cudnn", refusal, forward, backward_through(_readout))
"""cuDNN's attention as a record."""
