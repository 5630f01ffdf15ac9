"""Sampling, token by token, with the window recomputed for each."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from cem_jax.ops.visibility import Sites


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How the next token is drawn.

    Attributes:
        temperature: divides the logits, at least 0; zero takes the likeliest.
        top_k: how many of the likeliest tokens may be drawn, at least 1; None is all.
        top_p: of these, the fewest likeliest whose probabilities at this temperature reach top_p
            in sum may be drawn, in (0, 1]; Holtzman et al., arXiv 1904.09751.
        seed: of the draws.
    """

    temperature: float = 0.8
    top_k: int | None = 40
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature: got {self.temperature}, expected a number >= 0.")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k: got {self.top_k}, expected at least 1, or None for all.")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: got {self.top_p}, expected a number in (0, 1].")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed: got {self.seed}, expected a number in [0, 2^32).")


NextToken = Callable[..., Int[Array, ""]]


def make_next_token(
    graph: nnx.GraphDef[Any], sampling: Sampling, *, vocab_size: int | None = None
) -> NextToken:
    """The jitted map (params, window ``[L]``, used, key) -> token ``[]``.

    ``used`` pieces of the window count, from the left; the rest is padding. The window's shape is
    fixed, so that a text of any length compiles once.

    Args:
        graph: of the model.
        sampling: how the token is drawn; the seed is the key's.
        vocab_size: tokens from here on are never drawn; by default all may be.
    """

    def next_token(
        params: dict[str, Any], window: Int[Array, "L"], used: Int[Array, ""], key: Array
    ) -> Int[Array, ""]:
        model = nnx.merge(graph, params)
        position = jnp.arange(len(window), dtype=jnp.int32)
        sites = Sites(position[None], (position < used).astype(jnp.int32)[None])
        hidden = model.hidden(window[None], sites)
        last = jax.lax.dynamic_slice_in_dim(hidden, used - 1, 1, axis=1)
        logits = model.logits(last)[0, 0].astype(jnp.float32)[:vocab_size]
        return _draw(logits, sampling, key)

    return jax.jit(next_token)


def generate(
    next_token: NextToken,
    params: dict[str, Any],
    prompt: Sequence[int],
    *,
    count: int,
    window: int,
    end: int | None = None,
    sampling: Sampling,
) -> list[int]:
    """Up to ``count`` tokens after the prompt.

    Args:
        next_token: see `make_next_token`, of the same ``sampling``.
        params: of the model.
        prompt: pieces, at least one; BOS starts a document.
        count: how many tokens to draw at most.
        window: L, how many of the last pieces the model sees; that of training is what it knows.
        end: the piece that stops the text, EOS; it is not part of the answer.
        sampling: how each is drawn.
    """
    if not prompt:
        raise ValueError("prompt: got no piece, expected at least one; start with BOS.")
    if count < 0 or window < 1:
        raise ValueError(
            f"count, window: got {count} and {window}, expected count >= 0 and window >= 1."
        )
    key = jax.random.key(sampling.seed)
    pieces = list(prompt)
    for index in range(count):
        seen = pieces[-window:]
        padded = np.zeros(window, np.int32)
        padded[: len(seen)] = seen
        drawn = next_token(params, padded, np.int32(len(seen)), jax.random.fold_in(key, index))
        if int(drawn) == end:
            break
        pieces.append(int(drawn))
    return pieces[len(prompt) :]


def _draw(logits: Float[Array, "V"], sampling: Sampling, key: Array) -> Int[Array, ""]:
    if sampling.temperature == 0:
        return jnp.argmax(logits).astype(jnp.int32)
    logits = logits / sampling.temperature
    if sampling.top_k is not None and sampling.top_k < len(logits):
        least = jax.lax.top_k(logits, sampling.top_k)[0][-1]
        logits = jnp.where(logits < least, -jnp.inf, logits)
    if sampling.top_p < 1:
        logits = jnp.where(logits < _nucleus(logits, sampling.top_p), -jnp.inf, logits)
    return jax.random.categorical(key, logits).astype(jnp.int32)


def _nucleus(logits: Float[Array, "V"], top_p: float) -> Float[Array, ""]:
    """The least logit among the fewest likeliest tokens that reach ``top_p`` together."""
    ordered = jnp.sort(logits, descending=True)
    probability = jax.nn.softmax(ordered)
    # What stands before a token: the likeliest is always in.
    before = jnp.cumsum(probability) - probability
    return jnp.min(jnp.where(before < top_p, ordered, jnp.inf))
