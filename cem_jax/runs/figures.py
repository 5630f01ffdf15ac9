"""What a model reached on the splits of a text."""

from __future__ import annotations

import dataclasses
from typing import Any

from flax import nnx

from cem_jax.data import Rows
from cem_jax.evaluation.diagnostics import least_eigenvalues
from cem_jax.evaluation.perplexity import Perplexity, RowNats, perplexity, total_nats
from cem_jax.runs.text import Text

EVALUATED = 4096
"""Tokens that are evaluated at a time, about; figures do not depend on it."""

GLANCE = 32_768
"""Validation tokens of an evaluation on the way, about; at the end all count."""

FIGURES = {"loss": 4, "perplexity": 2, "bits_per_byte": 4}
"""The figures of a split, with the digits that are shown."""


def split_figures(
    row_nats: RowNats,
    params: dict[str, Any],
    text: Text,
    splits: tuple[str, ...] = ("valid", "test"),
) -> dict[str, Any]:
    """Loss, perplexity and bits per byte of the splits, as ``valid_loss``, ``test_loss``, ...

    All tokens count alike. Of a mixture each source's are beside them, in ``valid_by_source``.

    Args:
        row_nats: see `evaluation.perplexity.make_row_nats`.
        params: of the model.
        text: of the run.
        splits: which.
    """
    result: dict[str, Any] = {}
    for split in splits:
        parts = {
            name: perplexity(row_nats, params, rows, batch=evaluated_rows(rows), utf8_bytes=size)
            for name, (rows, size) in text.parts(split).items()
        }
        sums = (sum(each) for each in zip(*map(dataclasses.astuple, parts.values()), strict=True))
        result |= _flat(split, Perplexity(*sums))
        if len(parts) > 1:
            result[f"{split}_by_source"] = {name: _flat(split, p) for name, p in parts.items()}
    return result


def glance(row_nats: RowNats, params: dict[str, Any], text: Text) -> dict[str, Any]:
    """The validation loss on part of the rows, evenly spread: ``valid_loss``, ``valid_tokens``."""
    valid = text.rows["valid"]
    rows = valid.select(slice(None, None, max(1, -(-valid.predicted // GLANCE))))
    nats, tokens = total_nats(row_nats, params, rows, batch=evaluated_rows(rows))
    return {"valid_loss": nats / tokens, "valid_tokens": tokens}


def eigenvalues(graph: nnx.GraphDef[Any], params: dict[str, Any]) -> dict[str, Any]:
    """The least eigenvalue of each learned preconditioner over the layers, by sublayer."""
    least = least_eigenvalues(nnx.merge(graph, params))
    return {f"least_eigenvalue_{name}": float(value.min()) for name, value in least.items()}


def speed(metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """Tokens and their rate, from the records of ``metrics.jsonl``.

    The rate is the median over the times that metrics were fetched, which leaves compilation and
    other pauses out where there are several.
    """
    groups: dict[float, float] = {}
    for record in metrics:
        if "loss" in record:
            groups[record["seconds"]] = groups.get(record["seconds"], 0.0) + record["tokens"]
    ends = sorted(groups)
    spans = [end - start for start, end in zip([0.0, *ends], ends, strict=False)]
    rates = sorted(groups[end] / span for end, span in zip(ends, spans, strict=True) if span > 0)
    tokens = sum(record["tokens"] for record in metrics if "loss" in record)
    rate = rates[len(rates) // 2] if rates else 0.0
    return {"train_tokens": int(tokens), "tokens_per_second": rate}


def skips(metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """How many steps were skipped, as ``skipped_steps``, where some were."""
    count = sum("skipped" in record for record in metrics)
    return {"skipped_steps": count} if count else {}


def evaluated_rows(rows: Rows) -> int:
    """How many rows are evaluated at a time."""
    return max(1, EVALUATED // rows.length)


def _flat(split: str, figures: Perplexity) -> dict[str, Any]:
    return {f"{split}_{name}": getattr(figures, name) for name in FIGURES}
