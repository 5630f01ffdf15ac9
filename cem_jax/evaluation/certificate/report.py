"""The certificate for the eye and for a program."""

from __future__ import annotations

import dataclasses
import math
import platform
from typing import Any

import flax
import jax
from rich.table import Table

from cem_jax.evaluation.certificate.certify import Row


def table(rows: list[Row]) -> Table:
    """One line per comparison; a layer is named on its first."""
    result = Table(
        title="A: JAX's own derivatives   B: as shipped   C: by hand, or differences, in float64",
        title_justify="left",
        caption="In bfloat16, B is compared with A in float32.",
        caption_justify="left",
    )
    result.add_column("case", overflow="fold", max_width=36)
    result.add_column("precision")
    result.add_column("comparison")
    result.add_column("largest relative error", justify="right")
    result.add_column("in", overflow="fold")
    result.add_column("tolerance", justify="right")
    result.add_column("verdict")
    before = None
    for row in rows:
        if row.case != before:
            result.add_section()
        result.add_row(
            "" if row.case == before else row.case,
            row.precision,
            row.comparison,
            f"{row.error:.1e}",
            row.worst,
            f"{row.tolerance:.0e}",
            "[green]pass[/green]" if row.passed else "[bold red]FAIL[/bold red]",
        )
        before = row.case
    return result


def summary(rows: list[Row]) -> str:
    """How much was compared, how far apart it was, and the verdict."""
    failed = [row for row in rows if not row.passed]
    lines = [
        f"{len(rows)} comparisons of {sum(row.compared for row in rows)} tensors in "
        f"{len({row.case for row in rows})} cases."
    ]
    for precision in sorted({row.precision for row in rows} - {"-"}, reverse=True):
        worst = max(
            (row for row in rows if row.precision == precision),
            key=lambda row: row.error / row.tolerance,
        )
        lines.append(
            f"nearest to its tolerance in {precision}: {worst.error:.1e} of {worst.tolerance:.0e}"
        )
    lines.append(f"FAILED: {len(failed)} of {len(rows)}" if failed else "All pass.")
    return "\n".join(lines)


def as_json(rows: list[Row]) -> dict[str, Any]:
    """Everything the table says, with the versions it holds for; an infinite error is null."""
    entries = [dataclasses.asdict(row) | {"passed": row.passed} for row in rows]
    for entry in entries:
        if not math.isfinite(entry["error"]):
            entry["error"] = None
    return {
        "passed": all(row.passed for row in rows),
        "comparisons": len(rows),
        "tensors": sum(row.compared for row in rows),
        "versions": {
            "python": platform.python_version(),
            "jax": jax.__version__,
            "flax": flax.__version__,
            "backend": jax.default_backend(),
        },
        "rows": entries,
    }
