"""A run that trains in seconds, on a text of its own."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

SMALL = shlex.split(
    "--model cem --model.dim 16 --model.layers 1 --model.attention.energy.heads 2 "
    "--model.mlp.energy.features 24 --steps 6 --batch 2 --length 16 --tokenizer train:330 "
    "--record-every 2 --evaluate-every 4 --save-every 3 --seed 3"
)
"""Options of `cem train` for a full CEM."""


def write_text(path: Path) -> Path:
    """Forty documents, one with bytes that are no UTF-8."""
    texts = [
        f"Message {n}: the state of the union is {'very ' * (n % 5)}strong.\n" for n in range(40)
    ]
    texts[0] += "A caf\udce9 of \udcff.\n"
    path.write_bytes("\x1e".join(text * 20 for text in texts).encode("utf-8", "surrogateescape"))
    return path


def arguments(text: Path, out: Path, *more: str) -> list[str]:
    """Of `cem`, to train it."""
    return ["train", "--data", str(text), *SMALL, "--out", str(out), *more]


def stop_after(step: int, arguments: list[str], monkeypatch: Any) -> int:
    """The status of a run that a signal reaches in this step of this start."""
    # Imported here: the hook that checks types must be in place before.
    from cem_jax.cli.main import main
    from cem_jax.runs import fit
    from cem_jax.runs.stopping import StopSignals

    class AskedAfter(StopSignals):
        left = step

        def __call__(self) -> bool:
            self.left -= 1
            return self.left == 0

    with monkeypatch.context() as patch:
        patch.setattr(fit, "stop_signals", AskedAfter)
        return main(arguments)
