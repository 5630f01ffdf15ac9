"""A small text that lies on disk as SlimPajama does."""

from __future__ import annotations

import json
import random
from pathlib import Path

DOMAINS = ("RedPajamaWikipedia", "RedPajamaBook", "RedPajamaC4")

BROKEN = b'{"text": "half a li\n'


def record(rng: random.Random) -> dict:
    """A document of 1 to 40 words that no other shares."""
    words = (f"{rng.choice('bcdfg')}{rng.choice('aeiou')}{rng.randrange(100)}" for _ in range(40))
    text = " ".join(list(words)[: rng.randint(1, 40)])
    return {"text": text, "meta": {"redpajama_set_name": rng.choice(DOMAINS)}}


def line(record: dict) -> bytes:
    return json.dumps(record).encode() + b"\n"


def write(root: Path, *, broken: bool = False, documents: int = 30) -> dict[str, list[dict]]:
    """Six files to train on, in two chunks and with gaps in their numbers, and two held out.

    Returns:
        The records of each split in the order of the files' names.
    """
    import zstandard

    rng, records = random.Random(0), {"train": [], "valid": [], "test": []}
    names = [f"train/chunk{1 + n // 3}/example_train_{n * 7}" for n in range(6)]
    names += [f"{split}/chunk1/example_holdout_5" for split in ("validation", "test")]
    for name in sorted(names):
        split = {"validation": "valid"}.get(name.split("/")[0], name.split("/")[0])
        own = [record(rng) for _ in range(documents)]
        records[split] += own
        lines = [line(each) for each in own]
        if broken and name.endswith("_14"):
            lines.insert(4, BROKEN)
        data = b"".join(lines)
        # Two frames, of which the first ends within a line.
        frames = [zstandard.compress(data[:1000]), zstandard.compress(data[1000:])]
        path = root / f"{name}.jsonl.zst"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(frames))
    return records
