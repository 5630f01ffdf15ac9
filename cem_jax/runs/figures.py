"""What a model reached on the splits of a text."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from cem_jax.data import Rows
from cem_jax.data.prepared import Domains
from cem_jax.evaluation.diagnostics import least_eigenvalues
from cem_jax.evaluation.domains import by_domain
from cem_jax.evaluation.perplexity import Perplexity, RowNats, total_nats
from cem_jax.runs.text import Text

EVALUATED = 4096
"""Tokens that are evaluated at a time on a device, about; figures do not depend on it."""

GLANCE = 32_768
"""Validation tokens of an evaluation on the way, about; at the end all count."""

FIGURES = {"loss": 4, "perplexity": 2, "bits_per_byte": 4}
"""The figures of a split, with the digits that are shown."""


def split_figures(
    row_nats: RowNats,
    params: dict[str, Any],
    text: Text,
    splits: tuple[str, ...] = ("valid", "test"),
    devices: int = 1,
) -> dict[str, Any]:
    """Loss, perplexity and bits per byte of the splits, as ``valid_loss``, ``test_loss``, ...

    All tokens count alike. Of a mixture the figures of each source stand in ``valid_by_source``;
    where a text has domains, their bits per byte in ``valid_bits_per_byte/RedPajamaBook``, and
    those of a mixture's source in ``valid_bits_per_byte/SOURCE/RedPajamaBook``.

    Args:
        row_nats: see `evaluation.perplexity.make_row_nats`.
        params: of the model.
        text: of the run.
        splits: which.
        devices: over which the rows of a batch are spread.
    """
    result: dict[str, Any] = {}
    for split in splits:
        sources, parts = text.parts(split), {}
        for name, part in sources.items():
            nats, tokens, bits = _totals(row_nats, params, part.rows, part.domains, devices)
            parts[name] = Perplexity(nats, tokens, part.utf8_bytes)
            result |= _by_domain(split, bits, name if len(sources) > 1 else None)
        sums = (sum(each) for each in zip(*map(dataclasses.astuple, parts.values()), strict=True))
        result |= _flat(split, Perplexity(*sums))
        if len(parts) > 1:
            result[f"{split}_by_source"] = {name: _flat(split, p) for name, p in parts.items()}
    return result


def make_glance(
    row_nats: RowNats, text: Text, devices: int = 1
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The map from parameters to the figures of part of the validation rows, evenly spread.

    ``valid_loss``, ``valid_tokens`` and ``valid_bits_per_byte``; the last also of each domain, as
    `split_figures` names them, and of each source of a mixture, ``valid_bits_per_byte/SOURCE``: as
    if the other tokens of each cost the same. Rows are opened once, and not at each evaluation.

    Args:
        row_nats: see `evaluation.perplexity.make_row_nats`.
        text: of the run.
        devices: over which the rows of a batch are spread.
    """
    parts = text.parts("valid")
    targets = sum(part.rows.predicted for part in parts.values())
    some = slice(None, None, max(1, -(-targets // GLANCE)))
    chosen = {
        name: (part.rows.select(some), part.domains and part.domains.select(some))
        for name, part in parts.items()
    }
    utf8_bytes = text.utf8_bytes("valid")

    def glance(params: dict[str, Any]) -> dict[str, Any]:
        nats, tokens = 0.0, 0
        apart: dict[str, float] = {}
        for name, part in parts.items():
            own, count, bits = _totals(row_nats, params, *chosen[name], devices)
            nats, tokens = nats + own, tokens + count
            if len(parts) > 1 and count:
                whole = _bits_per_byte(own / count, part.rows.predicted, part.utf8_bytes)
                apart |= _by_domain("valid", {name: whole}, None)
            apart |= _by_domain("valid", bits, name if len(parts) > 1 else None)
        loss = nats / tokens
        whole = _bits_per_byte(loss, targets, utf8_bytes)
        return {"valid_loss": loss, "valid_tokens": tokens, "valid_bits_per_byte": whole, **apart}

    return glance


def _by_domain(split: str, bits: dict[str, float], source: str | None) -> dict[str, float]:
    """Their names in summary and metrics; of a mixture with that of the source."""
    within = f"{split}_bits_per_byte" if source is None else f"{split}_bits_per_byte/{source}"
    return {f"{within}/{domain}": value for domain, value in bits.items()}


def _bits_per_byte(loss: float, targets: int, utf8_bytes: int) -> float:
    """Nats per token as bits per byte of a text with so many tokens and bytes."""
    return Perplexity(loss * targets, targets, utf8_bytes).bits_per_byte


def _totals(
    row_nats: RowNats, params: dict[str, Any], rows: Rows, domains: Domains | None, devices: int
) -> tuple[float, int, dict[str, float]]:
    """Nats and tokens of the rows, and the bits per byte of each domain."""
    batch = evaluated_rows(rows, devices)
    if domains is None:
        return *total_nats(row_nats, params, rows, batch=batch), {}
    found = by_domain(row_nats, params, rows, domains, batch=batch)
    # Of the same sums: the whole is that of its parts.
    nats, tokens = math.fsum(found.nats.values()), sum(found.tokens.values())
    return nats, tokens, found.bits_per_byte(domains)


def eigenvalues(graph: nnx.GraphDef[Any], params: dict[str, Any]) -> dict[str, Any]:
    """The least eigenvalue of each learned preconditioner over the layers, by sublayer."""

    def least(params: dict[str, Any]) -> dict[str, Any]:
        return jax.tree.map(jnp.min, least_eigenvalues(nnx.merge(graph, params)))

    # One program: of two that do not wait for each other, two processes may begin the sends in
    # another order, and each waits for the other's for ever.
    found = jax.jit(least)(params)
    return {f"least_eigenvalue_{name}": float(value) for name, value in found.items()}


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


def evaluated_rows(rows: Rows, devices: int) -> int:
    """How many rows are evaluated at a time: on each device as many as one alone has.

    Of fewer rows than that the devices share those of one, since the rest of a batch is padding.
    """
    alone = max(1, EVALUATED // rows.length)
    if len(rows) >= devices * alone:
        return devices * alone
    return -(-alone // devices) * devices


def _flat(split: str, figures: Perplexity) -> dict[str, Any]:
    return {f"{split}_{name}": getattr(figures, name) for name in FIGURES}
