"""The rows of a step that was not finite, written out for a person to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cem_jax.data import Batch, Pipeline, Tokenizer
from cem_jax.runs.folder import RunFolder


def write_offending(folder: RunFolder, pipeline: Pipeline, tokenizer: Tokenizer, step: int) -> Path:
    """Write the batch of step ``step``, from 1: a line of JSON for each row.

    ``{"row": its number in the training text, "tokens": its pieces, "text": what they say}``;
    pieces that are no text, as document ends are, say nothing.

    Args:
        folder: of the run.
        pipeline: its training text.
        tokenizer: its own.
        step: whose loss or gradient is not finite.

    Returns:
        The file.
    """
    numbers = pipeline.rows_of(step - 1)
    pieces = _pieces(pipeline.batch(step - 1))
    rows: list[dict[str, Any]] = [
        {"row": int(number), "tokens": tokens, "text": tokenizer.decode(tokens)}
        for number, tokens in zip(numbers, pieces, strict=True)
    ]
    return folder.write_rows(step, rows)


def _pieces(batch: Batch) -> list[list[int]]:
    """The pieces of each row, what it predicts last included, padding left out."""
    found = []
    for inputs, targets, mask, segment in zip(
        batch.inputs, batch.targets, batch.mask, batch.sites.segment, strict=True
    ):
        last = targets[-1:][np.asarray(mask[-1:])]
        found.append(np.concatenate([inputs[np.asarray(segment) > 0], last]).tolist())
    return found
