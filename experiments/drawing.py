"""How the experiments' pictures are kept: two formats, and equal bytes for equal results."""

from __future__ import annotations

from pathlib import Path
from typing import Any


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
