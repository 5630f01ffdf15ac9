"""The manifest: what a prepared folder holds, written when all of it is there."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from cem_jax.data.prepared.shards import DRAFT, Shard, settle
from cem_jax.data.prepared.tally import Tally

FORMAT = 1
"""The version of the folder's form; another one is refused."""

MANIFEST, PLAN, PARTS = "manifest.json", "plan.json", "parts"


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a prepared folder holds.

    Attributes:
        plan: what was asked for (`plan.plan_of`).
        tokenizer_hash: `Tokenizer.content_hash` of the tokenizer in the folder.
        vocab_size: its V.
        dtype: of the numbers in the shards.
        shards: in order.
        tally: documents, bytes and targets by split and domain, and what was skipped.
        labels: shards of the domains of the held-out rows (`domains`); none in older folders.
    """

    plan: dict[str, Any]
    tokenizer_hash: str
    vocab_size: int
    dtype: str
    shards: tuple[Shard, ...]
    tally: Tally
    labels: tuple[Shard, ...] = ()

    @property
    def length(self) -> int:
        """L."""
        return int(self.plan["length"])

    def of_split(self, split: str) -> tuple[Shard, ...]:
        """The shards of a split."""
        return tuple(shard for shard in self.shards if shard.split == split)

    def content_hash(self) -> str:
        """SHA-256 of the rows, their order, and what their pieces mean."""
        digest = hashlib.sha256(f"{self.tokenizer_hash} {self.length}".encode())
        for shard in self.shards:
            digest.update(f" {shard.split} {shard.rows} {shard.sha256}".encode())
        return digest.hexdigest()

    def write(self, folder: Path) -> None:
        """Write ``manifest.json``, whole or not at all."""
        content = {"format": FORMAT, **dataclasses.asdict(self)}
        write_json(folder / MANIFEST, {**content, "checksum": _checksum(content)})

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of a folder whose shards are all there.

        Raises:
            ValueError: the preparation has not ended, the folder is of another version, or a
                shard is missing or has another size.
        """
        path = folder / MANIFEST
        if not (path.is_file() or (folder / PLAN).is_file()):
            raise ValueError(
                f"data: got {folder}, where nothing was prepared, expected the --out of cem data "
                f"prepare; prepare the text first."
            )
        if not path.is_file():
            done = len(list((folder / PARTS).glob("*.json")))
            raise ValueError(
                f"data: got {folder}, whose preparation has not ended ({done} parts are done), "
                f"expected a complete one; run the same cem data prepare again, which goes on."
            )
        content = read_json(path)
        checksum = content.pop("checksum", None)
        # Folders have none that were prepared before there was one.
        if checksum not in (None, _checksum(content)):
            raise _damaged(path, ValueError("its checksum is that of another content"))
        if (found := content.pop("format", None)) != FORMAT:
            raise ValueError(
                f"data: got {folder} in the form {found}, expected {FORMAT}; prepare the text "
                f"again with this version of cem_jax."
            )
        try:
            shards = tuple(Shard(**shard) for shard in content["shards"])
            labels = tuple(Shard(**shard) for shard in content.get("labels", ()))
            tally = Tally.from_json(content["tally"])
            manifest = cls(**{**content, "shards": shards, "tally": tally, "labels": labels})
        except (KeyError, TypeError, AttributeError) as error:
            raise _damaged(path, error) from error
        if missing := [shard for shard in shards + labels if not is_whole(folder, shard)]:
            raise ValueError(
                f"data: got {folder}, in which {missing[0].name} is missing or has another size "
                f"than its {missing[0].size:,} bytes, one of {len(missing)} such shards, expected "
                f"all {len(shards + labels)} whole; copy the folder again, or remove its "
                f"{MANIFEST} and run the same cem data prepare again."
            )
        return manifest


def is_whole(folder: Path, shard: Shard) -> bool:
    """Whether the file of a shard is there with its size."""
    path = folder / shard.name
    return path.is_file() and path.stat().st_size == shard.size


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_json(path: Path, content: dict[str, Any]) -> None:
    """A JSON file with its keys in order, whole or not at all."""
    draft = path.with_name(path.name + DRAFT)
    draft.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    settle(draft, path)


def read_json(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds.

    Raises:
        ValueError: it holds none.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _damaged(path, error) from error
    if not isinstance(content, dict):
        raise _damaged(path, TypeError(f"a {type(content).__name__}"))
    return content


def _damaged(path: Path, error: Exception) -> ValueError:
    return ValueError(
        f"data: got a damaged file {path} ({type(error).__name__}: {error}), expected what "
        f"cem data prepare writes; copy it again, or prepare the text again in another folder."
    )
