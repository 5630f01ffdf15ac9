"""Text from a model: prompt in, continuation out."""

from __future__ import annotations

import dataclasses
from typing import Any

from flax import nnx

from cem_jax.data import Tokenizer, printable
from cem_jax.inference import Sampling, generate, make_next_token

SAMPLE = 120
"""Tokens of a sample on the way."""


class Sampler:
    """Goes on with prompts; compiled once for all of them and for all seeds.

    Args:
        graph: of the model.
        tokenizer: of the run.
        window: how many tokens back the model sees.
        sampling: how a token is drawn.
    """

    def __init__(
        self,
        graph: nnx.GraphDef[Any],
        tokenizer: Tokenizer,
        window: int,
        sampling: Sampling,
    ) -> None:
        self.tokenizer = tokenizer
        self.window = window
        self.sampling = sampling
        # A model's vocabulary may be padded beyond its tokenizer's.
        self.next_token = make_next_token(graph, sampling, vocab_size=tokenizer.vocab_size)

    def __call__(
        self,
        params: dict[str, Any],
        prompt: str = "",
        *,
        tokens: int | None = None,
        seed: int | None = None,
    ) -> str:
        """The prompt and what the model makes of it, as text that can be printed.

        Args:
            params: of the model.
            prompt: the beginning of a document.
            tokens: how many are drawn at most; by default `SAMPLE`.
            seed: of the draws, where it is not that of the sampling.
        """
        sampling = self.sampling
        if seed is not None:
            sampling = dataclasses.replace(sampling, seed=seed)
        beginning = [self.tokenizer.bos, *self.tokenizer.encode(prompt)]
        pieces = generate(
            self.next_token,
            params,
            beginning,
            count=SAMPLE if tokens is None else tokens,
            window=self.window,
            end=self.tokenizer.eos,
            sampling=sampling,
        )
        return printable(self.tokenizer.decode([*beginning, *pieces]))
