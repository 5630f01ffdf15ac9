"""Verifying: every array of a saved state read in full, and compared with what was saved."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cem_jax.training.beside import BESIDE, DamagedError, beside
from cem_jax.training.fingerprint import checksum, shape

GROUP = 1 << 28
"""The bytes that are read at a time, about: a state need not fit in memory."""

STATE, COMMIT = Path("state"), Path("commit_success.txt")
"""Where the arrays lie, and what is written last into each folder of a state."""

KEY = re.compile(r"\['(.*?)'\]|\[(\d+)\]|\.(\w+)")
"""A key in a path of `fingerprint.leaves`: of a dict, of a sequence, or a field."""

Keys = tuple[str, ...]


class VanishedError(Exception):
    """A state that was deleted while it was looked at, as a run does that keeps the newest."""


def verify_state(path: Path, advanced: Callable[[int], None] = lambda count: None) -> int:
    """Read a state in full, without its model; nothing is written.

    Args:
        path: the folder of the state.
        advanced: is told of bytes of arrays that have been read.

    Returns:
        How many of its arrays have no checksum, as in states of an older version.

    Raises:
        DamagedError: something is missing, or not what was saved.
        VanishedError: it is not there any more.
    """
    try:
        _require_committed(path)
        return _compare(path, advanced)
    # Whatever a damaged file makes Orbax or TensorStore raise.
    except Exception as error:
        # A run renames a state before it deletes it.
        if not path.is_dir():
            raise VanishedError(path.name) from error
        if isinstance(error, DamagedError | MemoryError | PermissionError):
            raise
        reason = " ".join(str(error).split())[:200]
        raise DamagedError(f"it cannot be read ({type(error).__name__}: {reason})") from error


def array_bytes(path: Path) -> int:
    """The bytes of a state's arrays, as `verify_state` reads them; 0 where that is unknown."""
    try:
        return sum(map(_size, beside(path)["leaves"].values()))
    except DamagedError:
        return 0


def _require_committed(path: Path) -> None:
    for part in (BESIDE.parent, STATE, Path()):
        if not (path / part / COMMIT).is_file():
            raise DamagedError(
                f"{part / COMMIT} is missing, which is written last: the state is not whole, or "
                f"half-deleted"
            )


def _compare(path: Path, advanced: Callable[[int], None]) -> int:
    """The number of arrays without a checksum; see `verify_state`."""
    stored = beside(path)
    leaves: dict[Keys, str] = {_keys(name): told for name, told in stored["leaves"].items()}
    sums: dict[Keys, int] = {_keys(name): told for name, told in stored.get("sums", {}).items()}
    for keys, array in _arrays(path, leaves):
        where, told = "/".join(keys), leaves[keys]
        if shape(array) != told:
            raise DamagedError(f"{where} is {shape(array)}, and {told} was saved")
        if keys in sums and checksum(array) != sums[keys]:
            raise DamagedError(f"{where} has other numbers than were saved")
        advanced(_size(told))
    return len(leaves.keys() - sums.keys())


def _arrays(path: Path, leaves: dict[Keys, str]) -> Iterator[tuple[Keys, Any]]:
    """The arrays on the host, some at a time."""
    import orbax.checkpoint as ocp

    where = (path / STATE).resolve()
    first = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    on_host, on_device = (
        ocp.RestoreArgs(restore_type=np.ndarray),
        ocp.ArrayRestoreArgs(sharding=first),
    )
    with ocp.PyTreeCheckpointer() as checkpointer:
        tree = checkpointer.metadata(where).item_metadata.tree
        form: Any
        flat, form = jax.tree_util.tree_flatten_with_path(tree)
        names = [_keys(jax.tree_util.keystr(keys)) for keys, _ in flat]
        if missing := sorted({*names} ^ leaves.keys()):
            raise DamagedError(f"{'/'.join(missing[0])} is only in one of the state and {BESIDE}")
        for chosen in _groups([_size(leaves[name]) for name in names]):
            item, how = [ocp.PLACEHOLDER] * len(flat), [ocp.RestoreArgs()] * len(flat)
            for number in chosen:
                item[number], how[number] = flat[number][1], on_host
                # Random keys are no arrays of NumPy.
                if leaves[names[number]].startswith("key<"):
                    how[number] = on_device
            args = ocp.args.PyTreeRestore(form.unflatten(item), restore_args=form.unflatten(how))
            read = form.flatten_up_to(checkpointer.restore(where, args=args))
            yield from ((names[number], read[number]) for number in chosen)


def _groups(sizes: list[int]) -> Iterator[list[int]]:
    """Neighbours, in groups that end where they have `GROUP` bytes."""
    group: list[int] = []
    held = 0
    for number, size in enumerate(sizes):
        group.append(number)
        held += size
        if held >= GROUP:
            yield group
            group, held = [], 0
    if group:
        yield group


def _keys(name: str) -> Keys:
    """The keys of a path, whatever they are of: Orbax gives tuples back as lists and dicts."""
    return tuple(next(filter(None, found)) for found in KEY.findall(name))


def _size(told: str) -> int:
    """The bytes of an array that is told as ``float32[2, 3]``; 0 for random keys."""
    dtype, _, sizes = told.removesuffix("]").partition("[")
    if dtype.startswith("key<"):
        return 0
    return jnp.dtype(dtype).itemsize * math.prod(int(size) for size in sizes.split(",") if size)
