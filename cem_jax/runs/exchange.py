"""Weights out of a run, and into one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np

import cem_jax
from cem_jax.data import Tokenizer, load_tokenizer, make_tokenizer
from cem_jax.models.huggingface import read_llama
from cem_jax.models.llama_to_cem import (
    CEMStart,
    FromLlama,
    cem_config_from_llama,
    cem_from_llama,
)
from cem_jax.models.weights import load_weights, require_params, save_weights
from cem_jax.runs.config import DataConfig, RunConfig
from cem_jax.runs.described import describe, rebuild
from cem_jax.runs.environment import environment
from cem_jax.runs.folder import CONFIG, RunFolder
from cem_jax.runs.loading import Which, load
from cem_jax.runs.resume import identity
from cem_jax.sharding import Layout
from cem_jax.training import Checkpoints, TrainingConfig

FORMAT = "cem_jax"
"""What ``config.json`` of an exported folder calls itself."""

WEIGHTS = "model.safetensors"

LONGEST = 2048
"""Positions of an imported Llama's window, where it says more: memory grows with their square."""


def export_run(run: Path, to: Path, *, which: Which = "latest") -> Path:
    """Write ``model.safetensors``, ``config.json`` and the tokenizer of a run.

    A tied embedding is written once. The folder has all its parts or does not exist.

    Args:
        run: the folder of the run.
        to: a folder that does not exist.
        which: the newest state, or the best on validation.

    Raises:
        ValueError: no such run, or ``to`` exists.
    """
    require_new(to)
    loaded = load(run, which=which)
    draft = to.with_name(f".{to.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    folder = RunFolder(draft)
    folder.create()
    save_weights(draft / WEIGHTS, jax.device_get(loaded.params), {"format": FORMAT})
    described = {
        "format": FORMAT,
        "version": cem_jax.__version__,
        "step": loaded.step,
        "config": describe(loaded.config),
        "hashes": loaded.hashes,
    }
    folder.write(CONFIG, described)
    if loaded.tokenizer is not None:
        loaded.tokenizer.save(folder.tokenizer)
    draft.rename(to)
    return to


def import_run(
    source: Path, to: Path, *, family: FromLlama = "llama", tokenizer: str | None = None
) -> CEMStart | None:
    """Make a run, to generate from, to evaluate or to start another one from.

    Args:
        source: a folder that `export_run` wrote, or that of a Llama of Hugging Face.
        to: the folder of the run, which does not exist.
        family: for a Llama: what it becomes. Anything but ``"llama"`` is lossy; see
            `models.llama_to_cem.cem_from_llama`.
        tokenizer: for a Llama: a spec as for training; by default its ``tokenizer.model``, if it
            has one.

    Returns:
        For a CEM made from a Llama: what was dropped, and what is fresh.

    Raises:
        ValueError: the source is neither, or is damaged; or ``to`` exists.
    """
    require_new(to)
    stored = RunFolder(source).read(CONFIG)
    if "format" not in stored and "config" in stored:
        raise ValueError(
            f"source: got {source}, which is a run, expected exported weights; run cem export on "
            f"it first."
        )
    if stored.get("format") == FORMAT:
        stored = RunFolder(source).read(CONFIG, "config", "hashes", "step")
        config: RunConfig = rebuild(stored["config"])
        params = load_weights(source / WEIGHTS)
        require_params(config.model, params)
        own = RunFolder(source).tokenizer
        pieces = load_tokenizer(own) if own.is_dir() else None
        _write(to, config, params, stored["step"], stored["hashes"], pieces)
        return None
    model, params = read_llama(source)
    start = None
    if family != "llama":
        target = cem_config_from_llama(model, family)
        start = cem_from_llama(model, params, target)
        model, params = target, start.params
    pieces = _llama_tokenizer(source, tokenizer)
    if pieces is not None and pieces.vocab_size > model.vocab_size:
        raise ValueError(
            f"tokenizer: got one of {pieces.vocab_size} pieces for a model of {model.vocab_size}, "
            f"expected at most as many; give the model's own with --tokenizer."
        )
    window = min(int(stored.get("max_position_embeddings", LONGEST)), LONGEST)
    config = RunConfig(
        name=family,
        model=model,
        training=TrainingConfig(length=window),
        data=DataConfig(str(source), tokenizer or "none"),
    )
    hashes = {"corpus": None, "tokenizer": None if pieces is None else pieces.content_hash()}
    _write(to, config, params, 0, hashes, pieces)
    return start


def require_new(to: Path) -> None:
    """Refuse a folder that exists: nothing is overwritten."""
    if to.exists():
        raise ValueError(f"to: got {to}, which exists, expected a new folder; choose another name.")


def _llama_tokenizer(source: Path, spec: str | None) -> Tokenizer | None:
    if spec is not None:
        return make_tokenizer(spec, ())
    own = source / "tokenizer.model"
    return load_tokenizer(own) if own.is_file() else None


def _write(
    to: Path,
    config: RunConfig,
    params: dict[str, Any],
    step: int,
    hashes: dict[str, Any],
    tokenizer: Tokenizer | None,
) -> None:
    draft = RunFolder(to.with_name(f".{to.name}.part"))
    shutil.rmtree(draft.path, ignore_errors=True)
    draft.create()
    described = {"config": describe(config), "hashes": hashes, **environment()}
    draft.write(CONFIG, described)
    if tokenizer is not None:
        tokenizer.save(draft.tokenizer)
    state = {"params": params, "step": np.int32(step)}
    with Checkpoints(draft.checkpoints, identity(described)) as checkpoints:
        checkpoints.save(jax.device_put(state, Layout.of().sharding()))
    draft.path.rename(to)
