"""Text from a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cem_jax.data import printable
from cem_jax.inference import Sampling, generate, make_next_token
from cem_jax.runs.loading import LoadedRun


def continuations(
    run: LoadedRun, prompt: str, samplings: Sequence[Sampling], *, tokens: int
) -> Iterator[str]:
    """The prompt and what the model makes of it, once for each sampling, as printable text.

    Args:
        run: a model and its tokenizer.
        prompt: the beginning of a document.
        samplings: how tokens are drawn.
        tokens: how many are drawn at most.
    """
    tokenizer = run.require_tokenizer()
    beginning = [tokenizer.bos, *tokenizer.encode(prompt)]
    for sampling in samplings:
        pieces = generate(
            make_next_token(run.graph, sampling),
            run.params,
            beginning,
            count=tokens,
            window=run.config.training.length,
            end=tokenizer.eos,
            sampling=sampling,
        )
        yield printable(tokenizer.decode([*beginning, *pieces]))
