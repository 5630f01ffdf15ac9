"""A small text that lies on disk as SlimPajama does."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import zstandard

from cem_jax.data import load_corpus

DOMAINS = ("RedPajamaCommonCrawl", "RedPajamaC4", "RedPajamaWikipedia", "RedPajamaBook")
PER_FILE = 100
"""Documents in a file."""
HELD_OUT = 2
"""Documents in each of the splits that are not trained on."""
LONGEST = 4_000
"""Their characters, at most: a run evaluates all of them twice."""


def write(root: Path, source: str, documents: int) -> int:
    """Write it: ``train|validation|test / chunkN / example_*.jsonl.zst``.

    Two chunks of training text, gaps in the numbers of their files, several frames in each file of
    which one ends within a line, and a domain at each document, as the dataset has them.

    Args:
        root: the folder, which is made.
        source: a built-in corpus or a text file, as of ``cem train --data``.
        documents: how many of its training documents are taken.

    Returns:
        The bytes of the files.
    """
    corpus, written = load_corpus(source), 0
    for split, texts, most in (
        ("train", corpus.train, documents),
        ("validation", [text[:LONGEST] for text in corpus.valid], HELD_OUT),
        ("test", [text[:LONGEST] for text in corpus.test], HELD_OUT),
    ):
        for number, part in enumerate(_cut(texts[:most], PER_FILE)):
            chunk = f"chunk{1 + number % 2 if split == 'train' else 1}"
            kind = "train" if split == "train" else "holdout"
            path = root / split / chunk / f"example_{kind}_{7 * number}.jsonl.zst"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_frames(_lines(part)))
            written += path.stat().st_size
    return written


def _cut(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (texts[start : start + size] for start in range(0, len(texts), size))


def _lines(texts: Iterable[str]) -> bytes:
    records = (
        {"text": text, "meta": {"redpajama_set_name": domain}}
        for text, domain in zip(texts, itertools.cycle(DOMAINS), strict=False)
    )
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _frames(data: bytes) -> bytes:
    middle = len(data) // 2
    return zstandard.compress(data[:middle]) + zstandard.compress(data[middle:])
