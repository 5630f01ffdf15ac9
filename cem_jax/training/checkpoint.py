"""Checkpoints: parameters, optimiser, step and metadata as one unit on disk."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from cem_jax.ops.checks import require_count
from cem_jax.sharding.processes import ProcessGoneError, by_first, is_first, of_one_gone, together
from cem_jax.training.beside import DamagedError, beside
from cem_jax.training.fingerprint import (
    MismatchError,
    checksums,
    leaves,
    require_equal,
    require_undamaged,
)
from cem_jax.training.retention import METRIC, Retention
from cem_jax.training.state import State

FULL = 1 << 20
"""Free bytes below which a disk is called full."""

TRASH, DAMAGED = "trash", "damaged"
"""Folders for states that are being deleted, and for those that cannot be read."""


class Checkpoints:
    """The newest states of a run, and the best on validation, in one folder, by Orbax.

    A state is copied to the host, and written in the background while training goes on, to a
    temporary name that becomes the step's own when all of it is there; and it is renamed before
    it is deleted. So a step that is listed is whole, whenever the process was killed. Use it in a
    ``with`` block, which waits for the last write.

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

        # As it will be read back: JSON knows no tuples.
        self._identity = json.loads(json.dumps(identity or {}))
        self._folder = folder.resolve()
        self._read_only = read_only
        self._ocp: Any = ocp
        self._retention = Retention(keep)
        self._manager: Any = self._open()
        for step in self.steps():
            self._remember(step)
        self._clear_trash()

    def _open(self) -> Any:
        options = self._ocp.CheckpointManagerOptions(
            preservation_policy=self._retention,
            cleanup_tmp_directories=not self._read_only,
            read_only=self._read_only,
            create=not self._read_only,
            save_interval_steps=0 if self._read_only else 1,
            # Renamed before it is deleted: what is half-deleted must not be listed.
            todelete_subdir=None if self._read_only else TRASH,
        )
        return self._ocp.CheckpointManager(self._folder, options=options)

    def _remember(self, step: int) -> None:
        """Its validation loss; a state that cannot be read has none."""
        try:
            self._retention.add(step, beside(self._folder / str(step))["metadata"].get(METRIC))
        except DamagedError:
            self._retention.add(step, None)

    def save(self, state: State, metadata: dict[str, Any] | None = None) -> None:
        """Write the state under its step, with more metadata that JSON can hold.

        Args:
            state: kept as it is now, even where its buffers are then reused.
            metadata: kept with it. A ``valid_loss`` in it makes the state a candidate for the best.

        Raises:
            ValueError: a state of this step or a later one is there already.
            OSError: this state or the one before it could not be written, as on a full disk.
        """
        step, latest, metadata = int(state["step"]), self.latest(), metadata or {}
        args = self._ocp.args
        told = {
            "metadata": metadata,
            "leaves": leaves(state),
            "sums": checksums(state),
            "identity": self._identity,
        }
        self.wait()
        self._empty_trash()
        self._retention.add(step, metadata.get(METRIC))
        with _writing(self._folder):
            saved = self._manager.save(
                step,
                args=args.Composite(state=args.PyTreeSave(state), metadata=args.JsonSave(told)),
            )
        # Orbax refuses without a word.
        if not saved:
            raise ValueError(
                f"step: got {step} to save after step {latest}, expected a later one; use a new "
                f"folder, or delete the later states first."
            )

    def steps(self) -> list[int]:
        """The steps that are there, in order."""
        return sorted(int(step) for step in self._manager.all_steps())

    def latest(self) -> int | None:
        """The newest step, or None where there is no state."""
        step: int | None = self._manager.latest_step()
        return step

    def best(self) -> int | None:
        """The step with the lowest ``valid_loss``, or None where no state has one."""
        return self._retention.best(self.steps())

    def evaluated(self, step: int) -> bool:
        """Whether the state has a ``valid_loss``."""
        return self._retention.best([step]) is not None

    def restore(self, abstract: State, step: int | None = None) -> tuple[State, dict[str, Any]]:
        """The state and metadata of a step, the newest by default.

        Args:
            abstract: shapes, dtypes and shardings; see `state.Fresh`. Always given: without it
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
        self.wait()
        with together():
            told = beside(self._folder / str(step))
        whole = "step" in abstract
        stored = {
            path: leaf
            for path, leaf in told["leaves"].items()
            if whole or any(path.startswith(f"[{name!r}]") for name in abstract)
        }
        # Orbax would cast another dtype without a word.
        require_equal(stored, leaves(abstract))
        require_equal(told["identity"], self._identity)
        restore = args.PyTreeRestore(
            abstract,
            restore_args=self._ocp.checkpoint_utils.construct_restore_args(abstract),
            partial_restore=not whole,
        )
        # What one process cannot read, none takes. Not by the manager: it would wait for the others
        # at the end of a read that had failed here.
        handler = self._ocp.PyTreeCheckpointHandler()
        with together(), contextlib.closing(handler):
            state = handler.restore(self._folder / str(step) / "state", args=restore)
        require_undamaged(told.get("sums", {}), checksums(state), step)
        return state, told["metadata"]

    def restore_newest(
        self, abstract: State, warn: Callable[[str], None]
    ) -> tuple[State, dict[str, Any], int] | None:
        """The newest state that can be read, its metadata and step; None where there is none.

        Those after it, which cannot be read, are moved to a folder of damaged ones, and `warn` is
        told.

        Raises:
            MismatchError: the newest is of another model, optimiser or text.
            ValueError: there are states, and none can be read; they are left where they are.
        """
        failures: dict[int, str] = {}
        for step in reversed(self.steps()):
            try:
                restored = self.restore(abstract, step)
            except (MismatchError, MemoryError, PermissionError, ProcessGoneError):
                raise
            # Whatever a damaged file makes Orbax or TensorStore raise.
            except Exception as error:
                reason = " ".join(str(error).split())[:200]
                failures[step] = f"{type(error).__name__}: {reason}"
                continue
            for damaged, reason in failures.items():
                where = "left there" if self._read_only else f"moved to {self.set_aside(damaged)}"
                warn(
                    f"checkpoint: the state of step {damaged} cannot be read ({reason}); it was "
                    f"{where}, and that of step {step} is taken."
                )
            return *restored, step
        if failures:
            told = "; ".join(f"step {step}: {reason}" for step, reason in failures.items())
            raise ValueError(
                f"checkpoint: got states in {self._folder} none of which can be read ({told}), "
                f"expected one at least; restore them, or begin in a new folder."
            )
        return None

    def set_aside(self, step: int) -> Path:
        """Move a state out of the way, to where it is kept and no longer listed."""
        place = self._folder.parent / f"{self._folder.name}-{DAMAGED}"
        place.mkdir(exist_ok=True)
        number, target = 0, place / str(step)
        while target.exists():
            number += 1
            target = place / f"{step}-{number}"
        self._manager.close()
        by_first(lambda: (self._folder / str(step)).rename(target))
        # Opened afresh: after a failed read the old manager cannot write.
        self._manager = self._open()
        return target

    def wait(self) -> None:
        """Until all that was saved is on disk.

        Raises:
            OSError: something could not be written.
        """
        with _writing(self._folder):
            self._manager.wait_until_finished()

    def _empty_trash(self) -> None:
        # Not the folder itself: Orbax may be about to move a state into it.
        if is_first():
            for state in (self._folder / TRASH).glob("*"):
                shutil.rmtree(state, ignore_errors=True)

    def _clear_trash(self) -> None:
        if is_first() and not self._read_only:
            shutil.rmtree(self._folder / TRASH, ignore_errors=True)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.wait()
        except OSError:
            # What ends the run already says why.
            if error is None:
                raise
        finally:
            self._manager.close()
        self._clear_trash()


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn whatever Orbax and TensorStore raise while they write into an OSError that explains."""
    try:
        yield
    except Exception as error:
        if (gone := of_one_gone(error)) is not None:
            raise gone from error
        raise OSError(
            f"checkpoint: a state could not be written to {folder} ({_why(error, folder)})"
        ) from error


def _why(error: Exception, folder: Path) -> str:
    free = shutil.disk_usage(folder).free
    if free < FULL:
        return f"no space left there: {free:,} bytes; free some"
    reason = " ".join(str(error).split())[:120]
    return f"{type(error).__name__}: {reason} ...; look at the permissions and quotas there"
