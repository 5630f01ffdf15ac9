"""A sample of a model in training."""

from __future__ import annotations

from typing import Any

from flax import nnx

from cem_jax.data import Tokenizer, printable
from cem_jax.inference import Sampling, generate, make_next_token
from cem_jax.training import TrainingConfig

SAMPLE = 120
"""Tokens of a sample."""


class Sampler:
    """Draws the beginning of a document, always with the same seed; compiled once.

    Args:
        graph: of the model.
        tokenizer: of the run.
        training: has the seed and the window.
    """

    def __init__(
        self, graph: nnx.GraphDef[Any], tokenizer: Tokenizer, training: TrainingConfig
    ) -> None:
        self.tokenizer = tokenizer
        self.window = training.length
        self.sampling = Sampling(seed=training.seed)
        self.next_token = make_next_token(graph, self.sampling)

    def __call__(self, params: dict[str, Any]) -> str:
        """Text that can be printed."""
        pieces = generate(
            self.next_token,
            params,
            [self.tokenizer.bos],
            count=SAMPLE,
            window=self.window,
            end=self.tokenizer.eos,
            sampling=self.sampling,
        )
        return printable(self.tokenizer.decode(pieces))
