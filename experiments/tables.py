"""Tables in Markdown: variants with their spread, and the cost of the presets."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, get_args

from cem_jax.models import Family, TransformerConfig, default_recipe
from cem_jax.models.cost import count_cost, count_parameters
from cem_jax.runs.sweep.statistics import paired, spread
from cem_jax.runs.sweep.table import paired_text, spread_text
from experiments.language_model.records import figures
from experiments.pages import table

LENGTHS = {"micro": 128, "tiny": 128, "small": 256, "paper": 1024}


def variants_table(records: list[dict[str, Any]], baseline: str = "llama") -> str:
    """Bits per byte of each variant, and its paired difference from the baseline."""
    measures = [
        name
        for name in ("valid_bits_per_byte", "test_bits_per_byte")
        if any(name in record for record in records)
    ]
    header = ["variant", "seeds"]
    for name in measures:
        split = {"valid": "validation"}.get(name.split("_")[0], "test")
        header += [f"bits per byte, {split}", f"minus {baseline} [95 %]"]
    header += ["parameters without embedding", "forward FLOPs per token", "least eigenvalue of P"]
    values = {name: figures(records, name) for name in measures}
    rows = []
    for variant, seeds in sorted(values[measures[0]].items()) if measures else []:
        cells = [f"`{variant}`", str(len(seeds))]
        for name in measures:
            own = values[name].get(variant, {})
            cells.append(spread_text(spread(list(own.values()))))
            difference = paired_text(paired(own, values[name].get(baseline, {})))
            cells.append("" if variant == baseline else difference)
        rows.append(cells + _costs(next(r for r in records if r["variant"] == variant)))
    return table(header, rows)


def _costs(record: dict[str, Any]) -> list[str]:
    least = [
        record[key]
        for key in ("least_eigenvalue_attention", "least_eigenvalue_mlp")
        if key in record
    ]
    return [
        f"{record['parameters_without_embeddings']:,}",
        f"{record['forward_flops_per_token']:,.0f}",
        f"{min(least):.2f}" if least else "",
    ]


TRIAL = re.compile(r"(.*?)-(\d.*)")
"""A family, such as ``attention-t2``, and what was tried of it."""


def tuning_table(records: list[dict[str, Any]]) -> str:
    """Each trial, the best of its family in bold."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        trial = TRIAL.fullmatch(record["variant"])
        groups.setdefault(trial[1] if trial else record["variant"], []).append(record)
    rows = []
    for group in groups.values():
        best = min(record["valid_bits_per_byte"] for record in group)
        for record in group:
            bits = record["valid_bits_per_byte"]
            rows.append(
                [f"`{record['variant']}`", f"**{bits:.4f}**" if bits == best else f"{bits:.4f}"]
            )
    return table(["family, Muon's learning rate, eta", "bits per byte, validation"], rows)


def preset_table() -> str:
    """Parameters and FLOPs of every preset and family, at T = 1 and 2 where there are steps."""
    rows = []
    for name, length in LENGTHS.items():
        for family in get_args(Family):
            for steps in (None,) if family == "llama" else (1, 2):
                recipe = default_recipe(family)
                if steps is not None:
                    recipe = dataclasses.replace(recipe, steps=steps)
                config = getattr(TransformerConfig, name)(family, recipe)
                cost = count_cost(config, batch=1, length=length)
                rows.append(
                    [
                        f"{name}, {family}" + ("" if steps is None else f", T = {steps}"),
                        f"{cost.total.parameters:,}",
                        f"{count_parameters(config).without_embedding:,}",
                        f"{cost.total.forward_flops / length / 1e6:,.2f}",
                        f"{cost.total.training_flops / length / 1e6:,.2f}",
                    ]
                )
    header = ["preset", "parameters", "without embeddings"]
    return table([*header, "forward MFLOP per token", "training MFLOP per token"], rows)
