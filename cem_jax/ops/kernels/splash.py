"""Adapter to JAX's splash attention on TPUs, with keys as values. Never run on its hardware.

Its masks go by index within the row. Queries must stand where the keys do, and positions count up
within a document, as rows of the data pipelines are packed: the distance of two positions of a
document is then that of their indices, and segments hide the others.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_kernel,
    splash_attention_mask,
)
from jaxtyping import Array, Float, Int

from cem_jax.ops.attention_kernel import Kernel
from cem_jax.ops.attention_terms import Attended, AttentionTerms
from cem_jax.ops.kernels import refusals
from cem_jax.ops.kernels.adapters import backward_through, cooled
from cem_jax.ops.visibility import Sites, Visible

LANES = 128
"""Positions are filled up to a multiple of this, the least block that the library takes."""

BLOCKS = (512, 256, 128)
"""Positions in a block, of which the largest is taken that divides the length."""


def kernel(interpret: bool) -> Kernel:
    """The kernel as a record.

    Args:
        interpret: run step by step on any platform, as tests do; compile for a TPU otherwise.
    """
    return Kernel(
        "splash",
        functools.partial(_refusal, interpret),
        functools.partial(_forward, interpret),
        backward_through(functools.partial(_readout, interpret)),
    )


def _refusal(
    interpret: bool, visible: Visible, terms: AttentionTerms, query: Sites, key: Sites
) -> str | None:
    return refusals.first(
        None if interpret else refusals.platform("tpu"),
        refusals.dtypes(terms, "bfloat16", "float32"),
        refusals.temperatures(terms),
        refusals.bias(terms),
        refusals.diagonal(terms),
        refusals.context_score(terms),
        refusals.lengths(terms),
    )


def _forward(
    interpret: bool, visible: Visible, terms: AttentionTerms, query: Sites, key: Sites
) -> Attended:
    readout, (log_sum,) = _run(interpret, True, visible, terms, query)
    row = query.segment != 0
    return Attended(
        jnp.where(row[:, None, :], log_sum, 0.0),
        jnp.where(row[:, :, None, None], readout.astype(jnp.float32), 0.0),
    )


def _readout(
    interpret: bool, visible: Visible, terms: AttentionTerms, query: Sites, key: Sites
) -> Float[Array, "B L H K"]:
    readout = _run(interpret, False, visible, terms, query)
    return jnp.where((query.segment != 0)[:, :, None, None], readout, 0)


def _run(
    interpret: bool, with_log_sum: bool, visible: Visible, terms: AttentionTerms, sites: Sites
) -> Any:
    """The library's kernel on rows that are filled up; heads before positions, as it wants them."""
    length, heads = terms.query.shape[1:3]
    whole = -(-length // LANES) * LANES

    def ahead(x: Array) -> Array:
        padded = jnp.pad(x, [(0, 0), (0, whole - length), (0, 0), (0, 0)])
        return jnp.swapaxes(padded, 1, 2)

    attention = _attention(interpret, with_log_sum, visible, heads, whole)
    keys = ahead(terms.key)
    # What fills up is padding, which sees padding alone; its rows are dropped.
    segments = jnp.pad(sites.segment.astype(jnp.int32), [(0, 0), (0, whole - length)])
    found = jax.vmap(attention)(ahead(cooled(terms)), keys, keys, _segment_ids(segments))

    def behind(x: Array) -> Array:
        return jnp.swapaxes(x[:, :, :length], 1, 2)

    if not with_log_sum:
        return behind(found)
    readout, (log_sum,) = found
    return behind(readout), (log_sum[..., :length],)


def _segment_ids(segments: Int[Array, "B S"]) -> splash_attention_kernel.SegmentIds:
    return splash_attention_kernel.SegmentIds(q=segments, kv=segments)


def _attention(
    interpret: bool, with_log_sum: bool, visible: Visible, heads: int, length: int
) -> Any:
    block = next(size for size in BLOCKS if length % size == 0)
    sizes = splash_attention_kernel.BlockSizes(
        block_q=block,
        block_kv=block,
        block_q_dkv=block,
        block_kv_dkv=block,
        block_q_dq=block,
        block_kv_dq=block,
    )
    return splash_attention_kernel.make_splash_mha(
        splash_attention_mask.MultiHeadMask([_mask(visible, length)] * heads),
        block_sizes=sizes,
        head_shards=1,
        q_seq_shards=1,
        save_residuals=with_log_sum,
        interpret=interpret,
    )


def _mask(visible: Visible, length: int) -> splash_attention_mask.Mask:
    shape = length, length
    if visible.window is not None:
        reach = visible.window - 1
        return splash_attention_mask.LocalMask(shape, (reach, 0 if visible.causal else reach), 0)
    if visible.causal:
        return splash_attention_mask.CausalMask(shape)
    return splash_attention_mask.FullMask(shape)


KERNEL = kernel(interpret=False)
"""Compiled, for a TPU."""
