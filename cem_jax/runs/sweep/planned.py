"""The runs that a sweep asks for, and the jobs that make them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cem_jax.data.tokenizer import is_by_path, tokenizer_identity
from cem_jax.runs.config import RunConfig
from cem_jax.runs.described import describe
from cem_jax.runs.folder import RunFolder
from cem_jax.runs.reporting import Report, Reported
from cem_jax.runs.resume import require_same, require_same_text
from cem_jax.runs.sweep.processes import Job
from cem_jax.runs.sweep.spec import SweepSpec
from cem_jax.runs.text import corpus_hash


class Planned(NamedTuple):
    """A run that a sweep asks for.

    Attributes:
        variant: its name.
        seed: of parameters and data.
        config: all that repeats it.
        path: its folder.
    """

    variant: str
    seed: int
    config: RunConfig
    path: Path

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.variant}, seed {self.seed}"

    def summary(self, report: Report) -> dict[str, Any] | None:
        """What the run reached; None where it has not ended or lacks some of the report.

        Raises:
            ValueError: the folder holds another run, or one of another text or tokenizer.
        """
        folder = RunFolder(self.path)
        if not folder.holds_a_run():
            return None
        stored, summary = folder.config(), folder.summary()
        try:
            require_same(stored, {"config": describe(self.config)})
            if summary is not None:
                self._require_same_text(stored)
        except ValueError as error:
            raise ValueError(f"{error} The folder is {self.path}.") from error
        return summary if summary and Reported.of(report).satisfied_by(summary) else None

    def _require_same_text(self, stored: dict[str, Any]) -> None:
        """By what the text says, wherever it lies; a run that goes on looks for itself."""
        data, spec = self.config.data, stored["config"]["data"]["tokenizer"]
        asked = {
            "corpus": _corpus_hash(data.source),
            "tokenizer": tokenizer_identity(data.tokenizer),
        }
        there = {**stored["hashes"]}
        there["tokenizer"] = there["tokenizer"] if is_by_path(spec) else spec
        require_same_text({"hashes": there}, {"hashes": asked})


@functools.cache
def _corpus_hash(source: str) -> str:
    """Of a text, which is read once for all runs."""
    return corpus_hash(source)


def require_one_text(configs: Mapping[str, RunConfig]) -> None:
    """Read the text, and refuse variants of different ones.

    Raises:
        ValueError: a text cannot be read, or two variants have different ones.
    """
    first, *others = configs.items()
    own = _corpus_hash(first[1].data.source)
    for name, config in others:
        if _corpus_hash(config.data.source) != own:
            raise ValueError(
                f"spec: got {config.data.source} for {name!r}, another text than "
                f"{first[1].data.source} for {first[0]!r}, expected one for all, since their "
                f"figures do not compare; make a sweep of each."
            )


def plan(spec: SweepSpec, configs: Mapping[str, RunConfig], out: Path) -> list[Planned]:
    """All runs of a sweep, seed by seed.

    Args:
        spec: the sweep.
        configs: of each variant, by its name.
        out: the folder of the sweep.
    """
    return [
        Planned(name, seed, _seeded(config, seed), out / f"{name}-s{seed}")
        for seed in spec.seeds
        for name, config in configs.items()
    ]


def _seeded(config: RunConfig, seed: int) -> RunConfig:
    return dataclasses.replace(config, training=dataclasses.replace(config.training, seed=seed))


def jobs(ahead: Sequence[Planned], spec: SweepSpec, out: Path, report: Report) -> list[Job]:
    """A `cem train` for each run, which also goes on with one that was begun."""
    words = {variant.name: variant.arguments for variant in spec.variants}
    # The seeds of a variant share what is compiled.
    cache = {"JAX_COMPILATION_CACHE_DIR": str(out.resolve() / ".compiled")}
    cache["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
    made = []
    for run in ahead:
        where = ("--seed", str(run.seed), "--out", str(run.path), "--report", report)
        command = ("-m", "cem_jax.cli.main", "train", *words[run.variant], *where, "--resume")
        made.append(Job(run.name, command, run.path.with_name(f"{run.path.name}.log"), cache))
    return made
