"""Checkpoints: parameters, optimiser, step and metadata as one unit on disk."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cem_jax.ops.checks import require_count
from cem_jax.training.state import State

METRIC = "valid_loss"
"""The figure by which the best state is known; lower is better."""

TRASH, DAMAGED = "trash", "damaged"
"""Folders for states that are being deleted, and for those that cannot be read."""


class MismatchError(ValueError):
    """A state of another model, optimiser or text: whole, and not what was asked for."""


class Checkpoints:
    """The newest states of a run, and the best on validation, in one folder, by Orbax.

    A state is written in the background while training goes on, to a temporary name that becomes
    the step's own when all of it is there, and is renamed before it is deleted: a step that is
    listed is whole, whenever the process was killed. Use it in a ``with`` block, which waits for
    the last write.

    Args:
        folder: where; it is created.
        identity: what its states belong to, such as the model, the text and the tokenizer, as
            JSON can hold it. Shapes alone would let a state into another norm mode or number of
            steps.
        keep: how many of the newest states are kept, at least 1. The one with the lowest
            ``valid_loss`` is kept beside them.
        read_only: whether nothing is written, cleaned or deleted, as where another process trains.
    """

    def __init__(
        self,
        folder: Path,
        identity: dict[str, Any] | None = None,
        *,
        keep: int = 2,
        read_only: bool = False,
    ) -> None:
        require_count("keep", keep)
        import orbax.checkpoint as ocp
        from orbax.checkpoint import checkpoint_managers as policies

        # As it will be read back: JSON knows no tuples.
        self._identity = json.loads(json.dumps(identity or {}))
        self._folder = folder.resolve()
        self._read_only = read_only
        self._ocp: Any = ocp
        best = policies.BestN(
            get_metric_fn=_metric, reverse=True, n=1, keep_checkpoints_without_metrics=False
        )
        newest = policies.LatestN(keep)
        self._options = ocp.CheckpointManagerOptions(
            preservation_policy=policies.AnyPreservationPolicy([newest, best]),
            best_fn=_metric,
            best_mode="min",
            cleanup_tmp_directories=not read_only,
            read_only=read_only,
            create=not read_only,
            save_interval_steps=0 if read_only else 1,
            # Renamed before it is deleted: what is half-deleted must not be listed.
            todelete_subdir=None if read_only else TRASH,
        )
        self._manager: Any = self._open()
        self._empty_trash()

    def _open(self) -> Any:
        return self._ocp.CheckpointManager(self._folder, options=self._options)

    def save(self, state: State, metadata: dict[str, Any] | None = None) -> None:
        """Write the state under its step, with more metadata that JSON can hold.

        Args:
            state: kept as it is now, even where its buffers are then reused.
            metadata: kept with it. A ``valid_loss`` in it makes the state a candidate for the best.

        Raises:
            ValueError: a state of this step or a later one is there already.
        """
        step, latest, metadata = int(state["step"]), self.latest(), metadata or {}
        args = self._ocp.args
        beside = {
            "metadata": metadata,
            "leaves": _leaves(state),
            "checksums": _checksums(state),
            "identity": self._identity,
        }
        saved = self._manager.save(
            step,
            args=args.Composite(state=args.PyTreeSave(state), metadata=args.JsonSave(beside)),
            metrics={METRIC: metadata[METRIC]} if METRIC in metadata else None,
        )
        # Orbax refuses without a word.
        if not saved:
            raise ValueError(
                f"step: got {step} to save after step {latest}, expected a later one; use a new "
                f"folder, or delete the later states first."
            )
        self._empty_trash()

    def steps(self) -> list[int]:
        """The steps that are there, in order."""
        return sorted(int(step) for step in self._manager.all_steps())

    def latest(self) -> int | None:
        """The newest step, or None where there is no state."""
        step: int | None = self._manager.latest_step()
        return step

    def best(self) -> int | None:
        """The step with the lowest ``valid_loss``, or None where no state has one."""
        step: int | None = self._manager.best_step()
        return step

    def restore(self, abstract: State, step: int | None = None) -> tuple[State, dict[str, Any]]:
        """The state and metadata of a step, the newest by default.

        Args:
            abstract: shapes, dtypes and shardings; see `state.abstract`. Always given: without it
                the layout of the run that wrote it is taken. A part of a state, such as
                ``{"params": ...}``, restores that part.
            step: which.

        Raises:
            MismatchError: it is not of this shape or identity.
            ValueError: there is no such state, or its numbers are not those that were saved.
        """
        step = self.latest() if step is None else step
        if step not in self.steps():
            raise ValueError(
                f"checkpoint: got no step {step} in {self._folder}, expected one of {self.steps()}."
            )
        args = self._ocp.args
        beside = self._manager.restore(step, args=args.Composite(metadata=args.JsonRestore()))
        # Orbax would cast another dtype without a word.
        stored = beside["metadata"]["leaves"]
        whole = "step" in abstract
        asked = _leaves(abstract)
        parts = {path: leaf for path, leaf in stored.items() if whole or _within(path, abstract)}
        _require_equal(parts, asked)
        _require_equal(_flat(beside["metadata"]["identity"]), _flat(self._identity))
        restore = args.PyTreeRestore(
            abstract,
            restore_args=self._ocp.checkpoint_utils.construct_restore_args(abstract),
            partial_restore=not whole,
        )
        restored = self._manager.restore(step, args=args.Composite(state=restore))
        _require_undamaged(beside["metadata"]["checksums"], _checksums(restored["state"]), step)
        return restored["state"], beside["metadata"]["metadata"]

    def restore_newest(
        self, abstract: State, warn: Callable[[str], None]
    ) -> tuple[State, dict[str, Any]] | None:
        """The newest state that can be read, or None where there is none.

        One that cannot be read is moved to the folder ``damaged``, and `warn` is told.

        Raises:
            MismatchError: the newest is of another model, optimiser or text.
        """
        for step in reversed(self.steps()):
            try:
                return self.restore(abstract, step)
            except MismatchError:
                raise
            # Whatever a damaged file makes Orbax or TensorStore raise.
            except Exception as error:
                where = self._set_aside(step)
                reason = " ".join(str(error).split())[:200]
                warn(
                    f"checkpoint: the state of step {step} cannot be read "
                    f"({type(error).__name__}: {reason}); it was moved to {where}, and the one "
                    f"before it is taken."
                )
        return None

    def wait(self) -> None:
        """Until all that was saved is on disk."""
        self._manager.wait_until_finished()

    def _set_aside(self, step: int) -> Path:
        place = self._folder.parent / f"{self._folder.name}-{DAMAGED}"
        place.mkdir(exist_ok=True)
        number, target = 1, place / str(step)
        while target.exists():
            number, target = number + 1, place / f"{step}-{number}"
        self._manager.close()
        (self._folder / str(step)).rename(target)
        # Opened afresh: after a failed read the old manager cannot write.
        self._manager = self._open()
        return target

    def _empty_trash(self) -> None:
        if not self._read_only:
            shutil.rmtree(self._folder / TRASH, ignore_errors=True)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._manager.close()
        self._empty_trash()


def _metric(metrics: dict[str, float]) -> float:
    return metrics[METRIC]


def _within(path: str, abstract: State) -> bool:
    return any(path.startswith(f"[{name!r}]") for name in abstract)


def _flat(tree: Any) -> dict[str, str]:
    """JSON values by path."""
    leaves = jax.tree_util.tree_leaves_with_path(tree, is_leaf=lambda leaf: leaf is None)
    return {jax.tree_util.keystr(path): json.dumps(leaf) for path, leaf in leaves}


def _leaves(state: State) -> dict[str, str]:
    """Shape and dtype of every array, under its path."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {
        jax.tree_util.keystr(path): f"{getattr(leaf.dtype, 'name', leaf.dtype)}{list(leaf.shape)}"
        for path, leaf in leaves
    }


def _checksums(state: State) -> dict[str, int]:
    """CRC-32 of every array's bytes, under its path: the files themselves hold none.

    Arrays that other processes hold a part of are left out.
    """
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {
        jax.tree_util.keystr(path): zlib.crc32(_bytes(leaf))
        for path, leaf in leaves
        if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable
    }


def _bytes(leaf: Any) -> np.ndarray:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.ascontiguousarray(leaf).view(np.uint8)


def _require_undamaged(saved: dict[str, int], read: dict[str, int], step: int) -> None:
    for path, checksum in read.items():
        if saved.get(path, checksum) != checksum:
            raise ValueError(
                f"checkpoint: got other numbers for {path} of step {step} than were saved, "
                f"expected the same; its files are damaged: take another step."
            )


def _require_equal(stored: dict[str, str], expected: dict[str, str]) -> None:
    for path in stored | expected:
        got, wanted = stored.get(path, "nothing"), expected.get(path, "nothing")
        if got != wanted:
            raise MismatchError(
                f"checkpoint: got {got} for {path}, expected {wanted}; it is of another model, "
                f"optimiser or text: restore it with the configuration of its run."
            )
