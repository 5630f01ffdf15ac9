"""Our own kernel for GPUs: Pallas through Triton. Never run on its hardware.

Each tile of keys is loaded once and used as key and as value. A diagonal that all heads share takes
two passes: logits, log-sum-exp and readout first; then, where every head's normaliser is known, the
probabilities again, summed over heads, and one product with the context for all heads. Its scores
w . c are one product for all heads, too: XLA computes both products for a strip of queries at a
time, so that memory stays linear in length. The backward pass computes probabilities again.

Products of float32 are exact, not rounded to TensorFloat-32, and so slow: this is for 16 bits.
Triton 3.9 makes machine code of every kernel for compute capabilities 8.0 and 9.0: in 16 bits, of
at most 87 KiB of shared memory. JAX 0.12 warns, when it lowers one, that it will drop this route.
"""

from __future__ import annotations

import functools

import jax

from cem_jax.ops.attention_kernel import Kernel
from cem_jax.ops.attention_terms import Attended, AttentionTerms
from cem_jax.ops.kernels import refusals
from cem_jax.ops.kernels.pallas_gpu_cotangents import backward
from cem_jax.ops.kernels.pallas_gpu_forward import attend
from cem_jax.ops.kernels.pallas_gpu_layout import Pull, lay_out
from cem_jax.ops.kernels.pallas_gpu_planes import summed_probability
from cem_jax.ops.kernels.pallas_gpu_strips import Strip, product, strips, whole
from cem_jax.ops.pieces import join
from cem_jax.ops.visibility import Sites, Visible

WIDEST = 256
"""The widest head, and context score, whose tiles fit on chip."""


def kernel(interpret: bool) -> Kernel:
    """The kernel as a record.

    Args:
        interpret: run step by step on any platform, as tests do; compile for a GPU otherwise.
    """
    return Kernel(
        "pallas",
        functools.partial(_refusal, interpret),
        functools.partial(_forward, interpret),
        functools.partial(backward, interpret),
    )


def _refusal(
    interpret: bool, visible: Visible, terms: AttentionTerms, query: Sites, key: Sites
) -> str | None:
    return refusals.first(
        None if interpret else refusals.platform("gpu"),
        refusals.dtypes(terms, "float16", "bfloat16", "float32"),
        refusals.temperatures(terms),
        refusals.bias(terms),
        refusals.diagonal_per_head(terms),
        refusals.wide_diagonal(terms),
        _width(terms),
    )


def _width(terms: AttentionTerms) -> str | None:
    for name, x in (("query", terms.query), ("context_query", terms.context_query)):
        if x is not None and x.shape[-1] > WIDEST:
            return f"got {name} of width {x.shape[-1]}, expected at most {WIDEST}."
    return None


def _forward(
    interpret: bool, visible: Visible, terms: AttentionTerms, query: Sites, key: Sites
) -> Attended:
    layout = lay_out(visible, terms, interpret)
    shared = whole(layout, terms, key)

    def step(_: None, strip: Strip) -> tuple[None, Attended]:
        problem = shared.at(strip)
        log_sum, readout = attend(layout, problem)
        if strip.weight is None:
            return None, Attended(log_sum, readout)
        known = Pull(log_sum, None, None, None)
        p = summed_probability(layout, problem, known, shared.context.dtype)
        return None, Attended(log_sum, readout, product("bls,bsd->bld", p, shared.context))

    _, found = jax.lax.scan(step, None, strips(layout, terms, query))
    length, width = terms.query.shape[1], terms.query.shape[-1]
    mean = None if found.mean is None else join(found.mean, length)
    readout = join(found.readout, length)[..., :width]
    return Attended(join(found.log_sum, length, 2), readout, mean)


KERNEL = kernel(interpret=False)
"""Compiled, for a GPU."""
