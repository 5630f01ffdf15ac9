"""Checkpoints: parameters, optimiser, step and metadata as one unit on disk."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp

from cem_jax.ops.checks import require_count
from cem_jax.training.state import State


class Checkpoints:
    """The newest states of a run in one folder, by Orbax.

    A state is written in the background while training goes on, to a temporary name that becomes
    the step's own when all of it is there: a step that is listed is whole. Use it in a ``with``
    block, which waits for the last write.

    Args:
        folder: where; it is created.
        identity: what its states belong to, such as the model, the text and the tokenizer, as
            JSON can hold it. Shapes alone would let a state into another norm mode or number of
            steps.
        keep: how many states are kept, at least 1.
    """

    def __init__(
        self, folder: Path, identity: dict[str, Any] | None = None, *, keep: int = 2
    ) -> None:
        require_count("keep", keep)
        import orbax.checkpoint as ocp

        # As it will be read back: JSON knows no tuples.
        self._identity = json.loads(json.dumps(identity or {}))

        self._ocp: Any = ocp
        options = ocp.CheckpointManagerOptions(max_to_keep=keep, cleanup_tmp_directories=True)
        self._manager: Any = ocp.CheckpointManager(folder.resolve(), options=options)

    def save(self, state: State, metadata: dict[str, Any] | None = None) -> None:
        """Write the state under its step, with more metadata that JSON can hold.

        Raises:
            ValueError: a state of this step or a later one is there already.
        """
        step, latest = int(state["step"]), self.latest()
        args = self._ocp.args
        beside = {"metadata": metadata or {}, "leaves": _leaves(state), "identity": self._identity}
        saved = self._manager.save(
            step,
            args=args.Composite(state=args.StandardSave(state), metadata=args.JsonSave(beside)),
        )
        # Orbax refuses without a word.
        if not saved:
            raise ValueError(
                f"step: got {step} to save after step {latest}, expected a later one; use a new "
                f"folder, or delete the later states first."
            )

    def latest(self) -> int | None:
        """The newest step, or None where there is no state."""
        step: int | None = self._manager.latest_step()
        return step

    def restore(self, abstract: State, step: int | None = None) -> tuple[State, dict[str, Any]]:
        """The state and metadata of a step, the newest by default.

        Args:
            abstract: shapes, dtypes and shardings; see `state.abstract`. Always given: without it
                the layout of the run that wrote it is taken.
            step: which.

        Raises:
            ValueError: there is no state, or it is not of this shape or identity.
        """
        step = self.latest() if step is None else step
        if step not in self._manager.all_steps():
            raise ValueError(
                f"checkpoint: got no step {step} in {self._manager.directory}, expected one of "
                f"{list(self._manager.all_steps())}."
            )
        args = self._ocp.args
        beside = self._manager.restore(step, args=args.Composite(metadata=args.JsonRestore()))
        # Orbax would cast another dtype without a word.
        _require_equal(beside["metadata"]["leaves"], _leaves(abstract))
        _require_equal(_flat(beside["metadata"]["identity"]), _flat(self._identity))
        restored = self._manager.restore(
            step, args=args.Composite(state=args.StandardRestore(abstract))
        )
        return restored["state"], beside["metadata"]["metadata"]

    def wait(self) -> None:
        """Until all that was saved is on disk."""
        self._manager.wait_until_finished()

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._manager.close()


def _flat(tree: Any) -> dict[str, str]:
    """JSON values by path."""
    leaves = jax.tree_util.tree_leaves_with_path(tree, is_leaf=lambda leaf: leaf is None)
    return {jax.tree_util.keystr(path): json.dumps(leaf) for path, leaf in leaves}


def _leaves(state: State) -> dict[str, str]:
    """Shape and dtype of every array, under its path."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {
        jax.tree_util.keystr(path): f"{jnp.dtype(leaf.dtype).name}{list(leaf.shape)}"
        for path, leaf in leaves
    }


def _require_equal(stored: dict[str, str], expected: dict[str, str]) -> None:
    for path in stored | expected:
        got, wanted = stored.get(path, "nothing"), expected.get(path, "nothing")
        if got != wanted:
            raise ValueError(
                f"checkpoint: got {got} for {path}, expected {wanted}; it is of another model, "
                f"optimiser or text: restore it with the configuration of its run."
            )
