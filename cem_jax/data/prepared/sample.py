"""The sample that a tokenizer is trained on: some of the train split, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

from cem_jax.data.json_lines import Document
from cem_jax.data.prepared.config import PrepareConfig
from cem_jax.data.prepared.documents import documents
from cem_jax.data.prepared.inputs import Input, Inputs
from cem_jax.data.prepared.selection import is_taken, split_of
from cem_jax.data.text import to_bytes

SAMPLE_BYTES = 50_000_000
"""The bytes of the sample, at most, but for the end of its last document."""

SAMPLE_FILES = 256
"""The files that it is taken from, at most, evenly spread."""


def training_sample(config: PrepareConfig, inputs: Inputs) -> Iterator[str]:
    """Documents of the train split, the first of each chosen file, the same each time.

    Each file gives what is left of the sample divided by the files that are left: one that has
    less leaves more to the others. What is broken is left out here, and met again later.
    """
    files = [file for file in inputs.files if file.split in (None, "train")]
    files = files[:: -(-len(files) // SAMPLE_FILES)]
    left = SAMPLE_BYTES
    for number, file in enumerate(files):
        share = left // (len(files) - number)
        for text in _train_texts(config, inputs, file):
            if share <= 0:
                break
            size = len(to_bytes(text))
            share, left = share - size, left - size
            yield text


def _train_texts(config: PrepareConfig, inputs: Inputs, file: Input) -> Iterator[str]:
    for found in documents(inputs.root, file, lambda count: None):
        if not isinstance(found, Document) or not is_taken(config, found):
            continue
        if split_of(file, found) == "train":
            yield found.text
