"""The plan: what a prepared folder is to be, so that only the same goes on in it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from cem_jax.data.prepared.config import PrepareConfig
from cem_jax.data.prepared.inputs import Inputs, shard_size
from cem_jax.data.prepared.manifest import FORMAT, PLAN, read_json, write_json
from cem_jax.data.prepared.shards import DRAFT
from cem_jax.data.tokenizer import tokenizer_identity


def plan_of(config: PrepareConfig, inputs: Inputs) -> dict[str, Any]:
    """All that the bytes of the folder follow from, and not where the source lies.

    What is done on a broken line is none of it: parts that are done had none, or left them out.
    """
    files = hashlib.sha256(json.dumps(inputs.files).encode())
    return {
        "format": FORMAT,
        "tokenizer": tokenizer_identity(config.tokenizer),
        "length": config.length,
        "packing": config.packing,
        "domains": sorted(set(config.domains)),
        "shard_bytes": shard_size(inputs.files, config.shard_bytes),
        "files": len(inputs.files),
        "files_bytes": sum(file.size for file in inputs.files),
        "files_sha256": files.hexdigest(),
    }


def begin(folder: Path, plan: dict[str, Any]) -> None:
    """Write the plan into a new folder, or see that it is the one that was begun there.

    A plan of which nothing came, as the work was stopped at once, holds nobody: another takes its
    place.

    Raises:
        ValueError: the folder holds something else, or another preparation.
    """
    path = folder / PLAN
    names = (file.name for file in folder.iterdir() if file != path)
    held = [name for name in names if not name.endswith((DRAFT, ".lock"))]
    if not path.exists():
        if held:
            raise ValueError(
                f"out: got {folder}, which is not empty ({held[0]}) and holds no prepared text, "
                f"expected a new folder; choose another name."
            )
        write_json(path, plan)
        return
    stored = read_json(path)
    other = [key for key in sorted({*plan, *stored}) if plan.get(key) != stored.get(key)]
    if other and not held:
        write_json(path, plan)
    elif other:
        shown = "; ".join(f"{key}: {stored.get(key)!r} there, {plan.get(key)!r}" for key in other)
        raise ValueError(
            f"out: got {folder}, which was begun otherwise ({shown}), expected the same; choose "
            f"another folder, give what is there, or delete the folder to begin anew."
        )
