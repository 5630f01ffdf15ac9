"""A prepared corpus: what a folder of shards gives to a run."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from pathlib import Path

from cem_jax.data.prepared.domains import LABELS, Domains
from cem_jax.data.prepared.manifest import MANIFEST, PLAN, Manifest
from cem_jax.data.prepared.prepare import TOKENIZER
from cem_jax.data.prepared.rows import PreparedRows
from cem_jax.data.prepared.shard_reader import ShardFile, ShardReader
from cem_jax.data.prepared.shards import RowFormat
from cem_jax.data.tokenizer import Tokenizer, load_tokenizer


def is_prepared(source: str) -> bool:
    """Whether it is a folder that `prepare` has begun or ended."""
    path = Path(source)
    return any((path / name).is_file() for name in (MANIFEST, PLAN))


@dataclasses.dataclass(frozen=True)
class PreparedCorpus:
    """Packed rows, the tokenizer they are of, and how many bytes of text they hold.

    Attributes:
        folder: where it lies.
        manifest: what it holds.
        tokenizer: its own.
    """

    folder: Path
    manifest: Manifest
    tokenizer: Tokenizer

    @classmethod
    def open(cls, folder: Path) -> PreparedCorpus:
        """Read the manifest and the tokenizer; rows are read later.

        Raises:
            ValueError: it is not complete, or its tokenizer is not the one it was made with.
        """
        manifest = Manifest.read(folder)
        tokenizer = load_tokenizer(folder / TOKENIZER)
        _require_tokenizer(folder, manifest, tokenizer)
        return cls(folder, manifest, tokenizer)

    @property
    def name(self) -> str:
        """What it is called: its path."""
        return str(self.folder)

    @property
    def tokenizer_folder(self) -> Path:
        """Where its tokenizer lies."""
        return self.folder / TOKENIZER

    @property
    def tokenizer_spec(self) -> str:
        """What was asked for when it was prepared."""
        return str(self.manifest.plan["tokenizer"])

    def rows(self, split: str) -> PreparedRows:
        """The rows of a split.

        Raises:
            ValueError: a shard is not the file that was written (`ShardFile.require_whole`).
        """
        reader = ShardReader(self.files(split), self.form)
        for file in reader.files:
            file.require_whole()
        return PreparedRows(reader, range(len(reader)))

    @property
    def form(self) -> RowFormat:
        """How its rows are stored."""
        return RowFormat(self.manifest.length, self.manifest.dtype)

    def files(self, split: str) -> list[ShardFile]:
        """The shards of a split, none of them opened."""
        return [ShardFile(self.folder / s.name, s) for s in self.manifest.of_split(split)]

    def domains(self, split: str) -> Domains | None:
        """The domains of the pieces of a split's rows; None where it has one, or does not say."""
        manifest = self.manifest
        shards = tuple(shard for shard in manifest.labels if shard.split == split)
        rows = [tuple(shard.rows for shard in each) for each in (shards, manifest.of_split(split))]
        counts = manifest.tally.taken[split]
        # Some parts may have been prepared by a version that wrote none.
        if rows[0] != rows[1] or len(counts) < 2:
            return None
        files = [ShardFile(self.folder / shard.name, shard) for shard in shards]
        for file in files:
            file.require_whole()
        reader = ShardReader(files, RowFormat(manifest.length, LABELS))
        return Domains(PreparedRows(reader, range(len(reader))), dict(sorted(counts.items())))

    def utf8_bytes(self, split: str) -> int:
        """The bytes of a split's documents."""
        return self.manifest.tally.total(split).bytes

    def content_hash(self) -> str:
        """SHA-256 of the rows and of how they are split."""
        return self._hash

    @functools.cached_property
    def _hash(self) -> str:
        return self.manifest.content_hash()

    def require(self, length: int, tokenizer: Tokenizer) -> None:
        """Refuse it for rows of another length, or another tokenizer.

        Raises:
            ValueError: it was prepared otherwise.
        """
        if length != self.manifest.length:
            raise ValueError(
                f"data: got {self.folder}, prepared for rows of length {self.manifest.length}, "
                f"expected {length}; give --length {self.manifest.length}, or prepare the text "
                f"again with --length {length}."
            )
        _require_tokenizer(self.folder, self.manifest, tokenizer)


def _require_tokenizer(folder: Path, manifest: Manifest, tokenizer: Tokenizer) -> None:
    if tokenizer.content_hash() != manifest.tokenizer_hash:
        raise ValueError(
            f"data: got {folder}, prepared with a tokenizer of {manifest.vocab_size:,} pieces "
            f"(SHA-256 {manifest.tokenizer_hash[:12]}), expected the one in use, of "
            f"{tokenizer.vocab_size:,} (SHA-256 {tokenizer.content_hash()[:12]}); use "
            f"--tokenizer {shlex.quote(str(folder / TOKENIZER))}, or prepare the text again with "
            f"the other."
        )
