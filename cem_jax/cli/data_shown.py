"""What `cem data inspect` shows of a prepared folder."""

from __future__ import annotations

import hashlib

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table

from cem_jax.data import PreparedCorpus, printable
from cem_jax.data.prepared import Manifest
from cem_jax.data.prepared.inputs import SPLITS
from cem_jax.data.prepared.shard_reader import ShardFile, ShardReader
from cem_jax.data.prepared.shards import RowFormat
from cem_jax.data.prepared.tally import Counts

WIDE = 160
"""The characters of a document that are shown, at most."""

READ = 1024
"""Rows that are read at a time where all are."""

NAMED = 20
"""Damaged shards that are named, at most."""


def heading(corpus: PreparedCorpus) -> str:
    """What the folder is, and what was not taken."""
    manifest = corpus.manifest
    plan, tally = manifest.plan, manifest.tally
    lines = [
        f"{corpus.folder}: rows of {manifest.length} + 1 pieces, packing {plan['packing']}, "
        f"{len(manifest.shards)} shards",
        f"tokenizer: {manifest.vocab_size:,} pieces, SHA-256 {manifest.tokenizer_hash[:12]}",
        f"rows: SHA-256 {corpus.content_hash()[:12]}",
        f"skipped: {tally.lines:,} broken lines, {tally.files:,} broken files, {tally.empty:,} "
        f"documents without text",
    ]
    lines += [f"  {example['why']}" for example in tally.examples[:3]]
    if tally.left_out:
        out = ", ".join(f"{name} ({count:,})" for name, count in sorted(tally.left_out.items()))
        lines.append(f"domains left out: {out}")
    return "\n".join(lines)


def counts_table(manifest: Manifest) -> Table:
    """Documents, megabytes, targets and rows by split and domain; how full the rows are."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("split", "domain"):
        table.add_column(name, no_wrap=True)
    for name in ("documents", "MB", "targets", "rows", "full"):
        table.add_column(name, justify="right", no_wrap=True)
    for split in SPLITS:
        total, shards = manifest.tally.total(split), manifest.of_split(split)
        rows = sum(shard.rows for shard in shards)
        full = total.targets / (rows * manifest.length)
        table.add_row(split, "all", *_cells(total), f"{rows:,}", f"{full:.1%}")
        domains = manifest.tally.taken[split]
        for domain, counts in sorted(domains.items()) if len(domains) > 1 else ():
            table.add_row("", escape(domain), *_cells(counts), "", "")
    return table


def _cells(counts: Counts) -> list[str]:
    return [f"{counts.documents:,}", f"{counts.bytes / 1e6:,.3f}", f"{counts.targets:,}"]


def shown_rows(corpus: PreparedCorpus, split: str, count: int) -> str:
    """A few rows, evenly spread, each document in them as text."""
    rows = corpus.rows(split)
    lines: list[str] = []
    spread = np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int)
    for number in spread.tolist():
        packed = rows.packed([number])
        tokens, segment = packed.tokens[0], packed.segment[0]
        lines.append(f"\n{split} row {number:,} of {len(rows):,}:")
        for label in range(1, int(segment.max()) + 1):
            pieces = tokens[segment == label].tolist()
            lines.append(f"  [{label}] {len(pieces)} pieces: {_line(corpus, pieces)}")
    return "\n".join(lines)


def _line(corpus: PreparedCorpus, pieces: list[int]) -> str:
    # As a Python string: line ends and what cannot be seen are written out.
    text = repr(printable(corpus.tokenizer.decode(pieces)))
    return text if len(text) <= WIDE else f"{text[: WIDE - 3]}..."


def verified(corpus: PreparedCorpus) -> str:
    """Read every row of every shard again.

    Raises:
        ValueError: some have other rows than were written; all of them are named.
    """
    files = [file for split in SPLITS for file in corpus.files(split)]
    damaged = [why for file in files if (why := _damage(file, corpus.form)) is not None]
    if damaged:
        shown = "\n".join(damaged[:NAMED])
        raise ValueError(
            f"data: got {corpus.folder}, in which {len(damaged)} of {len(files)} shards do not "
            f"hold the rows that were written, expected none:\n{shown}"
        )
    return f"all {len(files)} shards hold the rows that were written"


def _damage(file: ShardFile, form: RowFormat) -> str | None:
    """What is wrong with a shard."""
    digest, reader = hashlib.sha256(), ShardReader([file], form)
    try:
        file.require_whole()
        for start in range(0, len(reader), READ):
            found = reader.read(np.arange(start, min(start + READ, len(reader))))
            digest.update(b"".join(form.encode(found)))
    except ValueError as error:
        return str(error)
    if digest.hexdigest() == file.shard.sha256:
        return None
    return (
        f"data: got {file.path} with other rows than were written, expected SHA-256 "
        f"{file.shard.sha256}; copy it again, or prepare the text again."
    )
