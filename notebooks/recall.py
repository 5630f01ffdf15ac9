"""Associative recall: the toy task of two notebooks.

A sequence shows pairs, each a token that stands for a key and its value, then asks for the values
of all keys in another order. Pairs are drawn anew for each sequence, so nothing can be learned by
heart: the answer is in the context, and attention has to find it.
"""

from __future__ import annotations

import numpy as np

from cem_jax import Sites
from cem_jax.data import Batch

KEYS, VALUES = 8, 8
VOCABULARY = KEYS * VALUES + KEYS
"""A token for each pair, and one that asks for each key."""

LENGTH = 2 * KEYS


def batch(seed: int, rows: int = 32) -> Batch:
    """Sequences of the task; the loss counts at the questions, whose target is the pair.

    Args:
        seed: of the draw.
        rows: how many sequences.
    """
    draw = np.random.default_rng(seed)
    value = draw.integers(VALUES, size=(rows, KEYS))
    shown, asked = (draw.permuted(np.tile(np.arange(KEYS), (rows, 1)), axis=1) for _ in range(2))

    def pair(key: np.ndarray) -> np.ndarray:
        return key * VALUES + np.take_along_axis(value, key, axis=1)

    inputs = np.concatenate([pair(shown), KEYS * VALUES + asked], axis=1).astype(np.int32)
    targets = np.concatenate([pair(shown), pair(asked)], axis=1).astype(np.int32)
    question = np.broadcast_to(np.arange(LENGTH) >= KEYS, inputs.shape)
    return Batch(inputs, targets, question, Sites.dense(rows, LENGTH))
