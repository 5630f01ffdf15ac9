"""Mixtures: several prepared folders as one text, each drawn from as often as its weight says."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import shlex
import tomllib
from pathlib import Path
from typing import Any

from cem_jax.data.prepared.corpus import PreparedCorpus, is_prepared
from cem_jax.data.prepared.rows import MixedRows, Share
from cem_jax.data.prepared.shard_reader import ShardReader
from cem_jax.data.tokenizer import Tokenizer

SUFFIX = ".toml"


@dataclasses.dataclass(frozen=True)
class Source:
    """A prepared folder, and how often it is drawn from beside the others."""

    corpus: PreparedCorpus
    weight: float


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Prepared folders under names, as a TOML file lists them.

    A table for each, with its folder (beside the file, where it is no whole path) and its weight:
    ``[books]``, ``folder = "prepared/books"``, ``weight = 0.7``. Weights are of rows, and need not
    add up to 1; each is met to a percent of itself (`grain.MapDataset.mix`).

    Attributes:
        file: where it lies.
        sources: by name, in the order of the names.
    """

    file: Path
    sources: dict[str, Source]

    @classmethod
    def open(cls, file: Path) -> Mixture:
        """Read the file and the manifests of the folders.

        Raises:
            ValueError: a table is not as above, a folder is not complete, or two of them have
                another tokenizer or length, or are the same.
        """
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(
                f"data: got {file}, which is no TOML ({error}), expected a table for each prepared "
                f"folder, with folder and weight; mend it."
            ) from error
        if not content:
            raise ValueError(f"data: got {file} without a source, expected a table for each.")
        sources = {name: _source(file, name, content[name]) for name in sorted(content)}
        _require_alike(file, sources)
        return cls(file, sources)

    @property
    def _first(self) -> PreparedCorpus:
        return next(iter(self.sources.values())).corpus

    @property
    def name(self) -> str:
        """What it is called: its path."""
        return str(self.file)

    @property
    def tokenizer(self) -> Tokenizer:
        """That of all sources."""
        return self._first.tokenizer

    @property
    def tokenizer_folder(self) -> Path:
        """Where one copy of it lies."""
        return self._first.tokenizer_folder

    @property
    def tokenizer_spec(self) -> str:
        """What was asked for when the first source was prepared."""
        return self._first.tokenizer_spec

    def rows(self, split: str) -> MixedRows:
        """The rows of a split, source after source, with the weights that a pipeline draws by."""
        each = [source.corpus.rows(split) for source in self.sources.values()]
        files = [file for rows in each for file in rows.reader.files]
        reader = ShardReader(files, self._first.form)
        weights = [source.weight for source in self.sources.values()]
        shares = tuple(Share(len(rows), weight) for rows, weight in zip(each, weights, strict=True))
        return MixedRows(reader, range(len(reader)), shares=shares)

    def utf8_bytes(self, split: str) -> int:
        """The bytes of a split's documents, all sources together."""
        return sum(source.corpus.utf8_bytes(split) for source in self.sources.values())

    def identity(self) -> dict[str, dict[str, Any]]:
        """Weight and rows of each source, wherever it lies."""
        return {
            name: {"weight": source.weight, "rows": source.corpus.content_hash()}
            for name, source in self.sources.items()
        }

    def content_hash(self) -> str:
        """SHA-256 of all that."""
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()

    def require(self, length: int, tokenizer: Tokenizer) -> None:
        """Refuse it for rows of another length, or another tokenizer.

        Raises:
            ValueError: it was prepared otherwise.
        """
        for source in self.sources.values():
            source.corpus.require(length, tokenizer)


def open_prepared(source: str) -> PreparedCorpus | Mixture | None:
    """A folder of `prepare`, or a mixture of some; None where it is neither.

    Raises:
        ValueError: it is one, and not complete.
    """
    path = Path(source)
    if path.suffix == SUFFIX and path.is_file():
        return Mixture.open(path)
    return PreparedCorpus.open(path) if is_prepared(source) else None


def _source(file: Path, name: str, table: Any) -> Source:
    where = f"data: got [{name}] of {file}"
    if not isinstance(table, dict) or set(table) != {"folder", "weight"}:
        got = ", ".join(table) if isinstance(table, dict) else repr(table)
        raise ValueError(
            f"{where} with {got or 'nothing'}, expected a table with folder and weight; complete "
            f"it, or take out what is more."
        )
    folder, weight = table["folder"], table["weight"]
    if type(weight) not in (int, float) or not 0 < weight < math.inf:
        raise ValueError(
            f"{where} with weight {weight!r}, expected a positive number: how often its rows are "
            f"drawn beside those of the others; leave a source out that is not to be met."
        )
    if not isinstance(folder, str) or not is_prepared(str(file.parent / folder)):
        raise ValueError(
            f"{where} with folder {folder!r}, expected one that cem data prepare made, beside the "
            f"file or with its whole path; check the name."
        )
    return Source(PreparedCorpus.open(file.parent / folder), float(weight))


def _require_alike(file: Path, sources: dict[str, Source]) -> None:
    """Refuse sources that no one model can read, and one that is there twice."""
    (first, one), *others = sources.items()
    for number, (name, other) in enumerate(others, 1):
        a, b = one.corpus.manifest, other.corpus.manifest
        if a.length != b.length or a.tokenizer_hash != b.tokenizer_hash:
            raise ValueError(
                f"data: got {file}, in which {first} has rows of length {a.length} and a tokenizer "
                f"of SHA-256 {a.tokenizer_hash[:12]}, and {name} {b.length} and "
                f"{b.tokenizer_hash[:12]}, expected the same of all; prepare {name} again with "
                f"--length {a.length} --tokenizer {shlex.quote(str(one.corpus.tokenizer_folder))}."
            )
        for before in list(sources)[:number]:
            if sources[before].corpus.content_hash() == other.corpus.content_hash():
                raise ValueError(
                    f"data: got {file}, in which {before} and {name} are the same rows, expected "
                    f"each source once; take one out, and add up the weights."
                )
