"""A run that was trained, from its folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import jax
from flax import nnx

from cem_jax.data import Tokenizer, load_tokenizer
from cem_jax.models import CEMConfig, Transformer, TransformerConfig, parameter_axes
from cem_jax.ops.checks import require_count
from cem_jax.runs.config import RunConfig
from cem_jax.runs.described import rebuild
from cem_jax.runs.folder import RunFolder
from cem_jax.runs.resume import identity
from cem_jax.sharding import Layout
from cem_jax.training import Checkpoints, State

Which = Literal["latest", "best"]


@dataclasses.dataclass(frozen=True)
class LoadedRun:
    """A run as it lies in its folder, with the parameters of one state.

    Attributes:
        folder: where it lies.
        config: what it is.
        hashes: of its text and tokenizer.
        tokenizer: its own; None where weights were imported without one.
        graph: with ``params`` it merges to the model.
        params: a nested dict of arrays.
        step: how many steps they have seen.
    """

    folder: RunFolder
    config: RunConfig
    hashes: dict[str, Any]
    tokenizer: Tokenizer | None
    graph: nnx.GraphDef[Any]
    params: dict[str, Any]
    step: int

    def require_tokenizer(self) -> Tokenizer:
        """The tokenizer.

        Raises:
            ValueError: there is none.
        """
        if self.tokenizer is None:
            raise ValueError(
                f"tokenizer: got none in {self.folder.tokenizer}, expected one for text; import "
                f"the weights again with --tokenizer."
            )
        return self.tokenizer


def load(
    path: Path,
    *,
    which: Which = "latest",
    inner_steps: int | None = None,
    layout: Layout | None = None,
    warn: Callable[[str], None] = lambda text: None,
) -> LoadedRun:
    """Read a run.

    Args:
        path: its folder.
        which: the newest state, or the best on validation.
        inner_steps: T of all CEM layers, where it is to differ from the run's own.
        layout: where the parameters live; one device by default. Several processes read
            together, each what its devices hold.
        warn: is told where the newest state cannot be read and an older one is taken.

    Raises:
        ValueError: it is no run, has no state, or cannot have so many inner steps.
    """
    folder = RunFolder(path)
    stored = folder.config()
    config: RunConfig = rebuild(stored["config"])
    model = config.model if inner_steps is None else with_inner_steps(config.model, inner_steps)
    graph, abstract = nnx.split(nnx.eval_shape(lambda: Transformer(model, rngs=nnx.Rngs(0))))
    unplaced = nnx.to_pure_dict(abstract)
    shapes = jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
        unplaced,
        (layout or Layout.of()).parameters(unplaced, parameter_axes(model)),
    )
    state, step = _state(folder, identity(stored), {"params": shapes}, which, warn)
    return LoadedRun(
        folder=folder,
        config=dataclasses.replace(config, model=model),
        hashes=stored["hashes"],
        tokenizer=load_tokenizer(folder.tokenizer) if folder.tokenizer.is_dir() else None,
        graph=graph,
        params=state["params"],
        step=step,
    )


def _state(
    folder: RunFolder,
    belongs: dict[str, Any],
    abstract: State,
    which: Which,
    warn: Callable[[str], None],
) -> tuple[State, int]:
    """A state of the run, and its step."""
    if not folder.checkpoints.is_dir():
        raise _nothing(folder, "a saved state")
    with Checkpoints(folder.checkpoints, belongs, read_only=True) as checkpoints:
        if which == "best":
            if (best := checkpoints.best()) is None:
                raise _nothing(folder, "a state with a validation loss")
            return checkpoints.restore(abstract, best)[0], best
        restored = checkpoints.restore_newest(abstract, warn)
        if restored is None:
            raise _nothing(folder, "a saved state")
        return restored[0], restored[2]


def _nothing(folder: RunFolder, what: str) -> ValueError:
    return ValueError(
        f"run: got {folder.path} without {what}, expected one that has it; train it for longer, or "
        f"choose another."
    )


def with_inner_steps(model: TransformerConfig, steps: int) -> TransformerConfig:
    """The model with T = ``steps`` in every CEM layer.

    Raises:
        ValueError: it has no CEM layer, or one whose step sizes were learned step by step: no
            rule says what those of other steps would be.
    """
    require_count("inner_steps", steps)
    layers = {name: getattr(model, name) for name in ("attention", "mlp")}
    layers = {name: layer for name, layer in layers.items() if isinstance(layer, CEMConfig)}
    if not layers:
        raise ValueError(
            f"inner_steps: got {steps} for a model without CEM layers, expected none; leave it out."
        )
    for name, layer in layers.items():
        descent = layer.descent
        if descent.step_size.learn == "step" and steps != descent.steps:
            raise ValueError(
                f"inner_steps: got {steps} for the {name}, which learned a step size for each of "
                f"its {descent.steps} steps, expected {descent.steps}; train with one step size "
                f"per layer to change T later."
            )
        layers[name] = dataclasses.replace(layer, descent=dataclasses.replace(descent, steps=steps))
    return dataclasses.replace(model, **layers)
