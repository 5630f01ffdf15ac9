"""Selection: which documents are taken, and the split that each is put in."""

from __future__ import annotations

import hashlib

from cem_jax.data.corpora import PERIOD
from cem_jax.data.json_lines import Document
from cem_jax.data.prepared.config import PrepareConfig
from cem_jax.data.prepared.inputs import Input
from cem_jax.data.text import to_bytes


def is_taken(config: PrepareConfig, document: Document) -> bool:
    """Whether its domain was asked for."""
    return not config.domains or document.domain in config.domains


def split_of(file: Input, document: Document) -> str:
    """The split of its file, or else that of its own hash: 5 percent valid, 5 percent test.

    The hash of a text needs no count of documents, does not change when files are added, renamed
    or read in another order, and puts copies of a text in one split: nothing held out was learned
    word for word.
    """
    if file.split is not None:
        return file.split
    digest = hashlib.blake2b(to_bytes(document.text), digest_size=8).digest()
    bucket = int.from_bytes(digest, "big") % PERIOD
    return {PERIOD // 2 - 1: "valid", PERIOD - 1: "test"}.get(bucket, "train")
