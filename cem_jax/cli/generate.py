"""`cem generate`: text from a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

import tyro

from cem_jax.cli.quiet import quiet
from cem_jax.inference.generate import Sampling


@dataclasses.dataclass(frozen=True)
class Options:
    """Let a trained model go on with a prompt.

    The prompt is the beginning of a document. Each token is drawn from the model's distribution
    over the next one, at a temperature, among the likeliest; the model sees as many tokens back as
    a row of its training had. The same seed draws the same text.
    """

    run: tyro.conf.Positional[Path]
    """The folder of the run."""

    prompt: tyro.conf.Positional[str] = ""
    """What the text begins with; nothing by default."""

    tokens: int = 200
    """How many tokens to draw at most; the text may end before."""

    samples: int = 1
    """How many texts, with the seeds seed, seed + 1, ..."""

    temperature: float = Sampling.temperature
    """Divides the logits: below 1 likelier, above 1 more varied; 0 takes the likeliest."""

    top_k: int | None = Sampling.top_k
    """Draw among this many likeliest tokens; None is all."""

    top_p: float = Sampling.top_p
    """Draw among the fewest likeliest tokens whose probabilities reach this sum."""

    seed: int = 0
    """Of the draws."""

    inner_steps: int | None = None
    """T of all CEM layers; by default the run's own."""

    state: Literal["latest", "best"] = "latest"
    """The newest state of the run, or the best on validation."""


def main(arguments: list[str]) -> int:
    """Run ``cem generate``.

    Raises:
        ValueError: impossible options, or no such run.
    """
    options = tyro.cli(Options, args=arguments, prog="cem generate")
    for name in ("tokens", "samples"):
        if getattr(options, name) < 1:
            raise ValueError(f"{name}: got {getattr(options, name)}, expected at least 1.")
    if not 0 <= options.seed <= 2**32 - options.samples:
        raise ValueError(
            f"seed: got {options.seed} for {options.samples} samples, expected seeds in [0, 2^32)."
        )
    sampling = Sampling(options.temperature, options.top_k, options.top_p, options.seed)
    quiet()
    # Imported here: what is above answers mistakes at once.
    from cem_jax.runs.loading import load
    from cem_jax.runs.sampling import Sampler

    run = load(options.run, which=options.state, inner_steps=options.inner_steps)
    length = run.config.training.length
    sampler = Sampler(run.graph, run.require_tokenizer(), length, sampling)
    for seed in range(options.seed, options.seed + options.samples):
        text = sampler(run.params, options.prompt, tokens=options.tokens, seed=seed)
        if options.samples > 1:
            print(f"=== seed {seed}")
        print(text, flush=True)
    return 0
