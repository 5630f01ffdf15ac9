"""`cem import`: a run of weights that were exported, or of a Llama's."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import tyro

from cem_jax.cli.quiet import quiet
from cem_jax.models.llama_to_cem import FromLlama


@dataclasses.dataclass(frozen=True)
class Options:
    """Make a run of weights from elsewhere.

    The source is a folder that `cem export` wrote, or the folder of a Llama as Hugging Face's
    transformers saves it (config.json and model.safetensors). What comes out is the folder of a
    run: `cem generate` and `cem evaluate --data` read it, and `cem train --start` trains on from
    its weights.

    A Llama can become a CEM (--model cem): W_Q and W_K, gate and up are taken, W_V, W_O and down
    have no place in it. That loses the Llama's function: it is a start for training.
    """

    source: tyro.conf.Positional[Path]
    """The folder with the weights."""

    to: Path
    """The folder of the run to make, which must not exist."""

    model: FromLlama = "llama"
    """For a Llama: what it becomes."""

    tokenizer: str | None = None
    """For a Llama: its tokenizer, as for cem train; by default its tokenizer.model, if there."""


def main(arguments: list[str]) -> int:
    """Run ``cem import``.

    Raises:
        ValueError: weights that are not understood, or a folder that exists.
    """
    options = tyro.cli(Options, args=arguments, prog="cem import")
    quiet()
    # Imported here: what is above answers mistakes at once.
    from cem_jax.runs.exchange import import_run

    start = import_run(
        options.source, options.to, family=options.model, tokenizer=options.tokenizer
    )
    if start is not None:
        for what, counts in (("dropped", start.dropped), ("fresh", start.fresh)):
            print(f"{what}, {sum(counts.values()):,} parameters: {', '.join(counts) or 'none'}")
        print("This is not the Llama's function any more: train it on with cem train --start.")
    print(f"written: {options.to}")
    return 0
