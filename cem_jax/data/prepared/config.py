"""What a prepared folder is made of, and how."""

from __future__ import annotations

import dataclasses
from typing import Literal

from cem_jax.ops.checks import require_count, require_length, require_one_of

Packing = Literal["concat-split", "best-fit"]

OnError = Literal["stop", "skip"]

LEAST_SHARD = 128 << 20
"""Bytes of the source for one shard."""

SHARDS = 200
"""Shards of a split, about, at most: rows are read from any of them, and beyond
`shard_reader.OPEN` a shard is opened anew for most rows."""


@dataclasses.dataclass(frozen=True)
class PrepareConfig:
    """All that decides the bytes of a prepared folder, and what is done on a broken line.

    Attributes:
        source: a built-in corpus, a file, or a folder (`inputs.find_inputs`).
        tokenizer: "byte", "train:V" (trained on a sample of the train split), or the path of a
            sentencepiece model.
        length: L, the inputs of a row, at most 2^24; it has L + 1 pieces.
        packing: how documents are laid in rows (`packers`).
        domains: which documents are taken, by "redpajama_set_name"; empty takes all.
        on_error: whether a line or a file that cannot be read stops the work or is left out.
        shard_bytes: of the files that make one shard, at least, as they lie on disk; a file is
            never divided. None takes `LEAST_SHARD`, or more where that would make over `SHARDS`.
    """

    source: str
    tokenizer: str
    length: int
    packing: Packing = "concat-split"
    domains: tuple[str, ...] = ()
    on_error: OnError = "stop"
    shard_bytes: int | None = None

    def __post_init__(self) -> None:
        require_length(self.length)
        if self.shard_bytes is not None:
            require_count("shard_bytes", self.shard_bytes)
        require_one_of("packing", self.packing, ("concat-split", "best-fit"))
        require_one_of("on_error", self.on_error, ("stop", "skip"))
