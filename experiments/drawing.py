"""How the experiments' pictures are drawn and kept: two formats, equal bytes for equal results."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def canvas(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    """A figure and its axis, or axes, in inches; the caller's pyplot state is not ours."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, columns)


def save(figure: Any, path: Path) -> None:
    """Write the figure as PNG and SVG.

    Args:
        figure: of matplotlib.
        path: without a suffix; its folder is made.
    """
    from matplotlib import rc_context

    path.parent.mkdir(parents=True, exist_ok=True)
    # Neither names nor a date that change from one drawing to the next.
    with rc_context({"svg.hashsalt": path.name}):
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=130)
