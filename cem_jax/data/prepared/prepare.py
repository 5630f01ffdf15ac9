"""Preparing: a source made into a folder of shards, by parts, each whole or not there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cem_jax.data.json_lines import NO_DOMAIN
from cem_jax.data.prepared.config import PrepareConfig
from cem_jax.data.prepared.inputs import SPLITS, Inputs, find_inputs, group
from cem_jax.data.prepared.manifest import MANIFEST, PARTS, Manifest
from cem_jax.data.prepared.part import Part, read_report
from cem_jax.data.prepared.plan import begin, plan_of
from cem_jax.data.prepared.sample import training_sample
from cem_jax.data.prepared.shards import DRAFT, RowFormat, Shard
from cem_jax.data.prepared.tally import Tally
from cem_jax.data.prepared.workers import make_parts
from cem_jax.data.tokenizer import Tokenizer, load_tokenizer, make_tokenizer
from cem_jax.ops.checks import require_count

TOKENIZER = "tokenizer"
"""The folder of the tokenizer within the prepared one."""

Told = Callable[[int, int], None]
"""Is told of bytes that have been read, and of all that there are to read in this call."""


def prepare(
    config: PrepareConfig,
    out: Path,
    *,
    workers: int = 1,
    told: Told = lambda read, total: None,
) -> Manifest:
    """Make the folder ``out`` of a source, or go on where it was begun.

    The bytes of the folder follow from ``config`` and the source: not from the number of workers,
    nor from how often the work was killed and begun again.

    Args:
        config: what is prepared, and how.
        out: a new folder, or that of this very preparation.
        workers: how many processes.
        told: see `Told`.

    Returns:
        The manifest; that of a folder which is complete already, too.

    Raises:
        ValueError: something cannot work or be read, or ``out`` holds something else.
    """
    require_count("workers", workers)
    inputs = find_inputs(config.source)
    plan = plan_of(config, inputs)
    out.mkdir(parents=True, exist_ok=True)
    begin(out, plan)
    if (out / MANIFEST).is_file():
        manifest = Manifest.read(out)
        # It may have been killed between the two.
        shutil.rmtree(out / PARTS, ignore_errors=True)
        return manifest
    for draft in out.rglob(f"*{DRAFT}"):
        draft.unlink()
    tokenizer = _tokenizer(config, inputs, out)
    (out / PARTS).mkdir(exist_ok=True)
    groups = group(inputs.files, plan["shard_bytes"])
    parts = [Part(number, inputs.root, files, out) for number, files in enumerate(groups)]
    ahead = [part for part in parts if read_report(part) is None]
    total = sum(file.size for part in ahead for file in part.files)
    make_parts(ahead, config, out / TOKENIZER, workers=workers, told=lambda read: told(read, total))
    manifest = _manifest(config, plan, tokenizer, parts)
    manifest.write(out)
    shutil.rmtree(out / PARTS)
    return manifest


def _tokenizer(config: PrepareConfig, inputs: Inputs, out: Path) -> Tokenizer:
    """The tokenizer of the folder; made once."""
    folder = out / TOKENIZER
    if not folder.is_dir() or not any(folder.iterdir()):
        make_tokenizer(config.tokenizer, training_sample(config, inputs)).save(folder)
    return load_tokenizer(folder)


def _manifest(
    config: PrepareConfig, plan: dict[str, Any], tokenizer: Tokenizer, parts: list[Part]
) -> Manifest:
    """What all parts hold together."""
    shards: list[Shard] = []
    labels: list[Shard] = []
    tally = Tally()
    for part in parts:
        report = read_report(part)
        assert report is not None, "a part that was made has no report"
        shards += report.shards
        labels += report.labels
        tally.add(report.tally)
    _require_all(config, tally)
    form = RowFormat.of(config.length, tokenizer.vocab_size)
    shards, labels = (
        sorted(each, key=lambda shard: (SPLITS.index(shard.split), shard.name))
        for each in (shards, labels)
    )
    return Manifest(
        plan=plan,
        tokenizer_hash=tokenizer.content_hash(),
        vocab_size=tokenizer.vocab_size,
        dtype=form.dtype,
        shards=tuple(shards),
        tally=tally,
        labels=tuple(labels),
    )


def _require_all(config: PrepareConfig, tally: Tally) -> None:
    """Refuse what nothing can be trained or judged on."""
    found = {domain for domains in tally.taken.values() for domain in domains}
    if missing := sorted(set(config.domains) - found):
        known = ", ".join(sorted({*found, *tally.left_out} - {NO_DOMAIN}))
        expected = f"some of {known}" if known else "none, as no document there names its domain"
        raise ValueError(
            f"domains: got {missing[0]!r}, of which {config.source} has no document, expected "
            f"{expected}; choose others, and another folder.{_skipped(tally)}"
        )
    for split in SPLITS:
        if not tally.total(split).documents:
            raise ValueError(
                f"data: got {config.source} with no document for the {split} split, expected at "
                f"least one in each (5 percent are held out for validation and 5 for the test, by "
                f"hash, where the source has no splits); give more documents, and another folder."
                f"{_skipped(tally)}"
            )


def _skipped(tally: Tally) -> str:
    """What was left out as it could not be read: it may be why there is nothing."""
    if not (tally.lines or tally.files):
        return ""
    return (
        f" {tally.lines:,} broken lines and {tally.files:,} broken files were skipped, the first: "
        f"{tally.examples[0]['why']}"
    )
