"""Results as files: one small JSON for each run, and one with the floors of each prior."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from experiments.gaussian_process import bayes
from experiments.gaussian_process.plan import CASES, Case
from experiments.gaussian_process.prior import Prior
from experiments.gaussian_process.train import Training, draw_test, run
from experiments.pages import read_json

FOLDER = Path(__file__).parent / "results"


def write(path: Path, content: Any) -> None:
    """The JSON file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.part")
    draft.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)


def run_path(case: Case, seed: int, folder: Path = FOLDER) -> Path:
    """Where the result of a run is."""
    return folder / f"{case.name}-s{seed}.json"


def finish_run(case: Case, seed: int, training: Training, folder: Path = FOLDER) -> bool:
    """Do a run and write its result; False where it was there already."""
    path = run_path(case, seed, folder)
    if path.exists():
        return False
    result = run(case.prior, case.model, training, seed)
    write(path, {"name": case.name, "seed": seed, **result})
    return True


def finish_floor(prior: Prior, training: Training, folder: Path = FOLDER) -> bool:
    """Compute the floors of the test draw and write them; False where they were there already."""
    path = folder / f"floor-{prior.name}.json"
    if path.exists():
        return False
    x, y, point = (np.asarray(part) for part in draw_test(prior, training))
    predictions = {
        "trivial": np.zeros_like(y),
        "bayes": bayes.integrated(prior, x, y),
        "known": bayes.known(prior, x, y, point),
    }
    mse = {name: np.mean((mean - y) ** 2, axis=0) for name, mean in predictions.items()}
    rounded = {name: [round(float(v), 6) for v in values] for name, values in mse.items()}
    write(path, {"prior": prior.name, "sequences": len(y), **rounded})
    return True


def load_floor(prior: Prior, folder: Path = FOLDER) -> dict[str, Any]:
    """The mean squared errors at each position: ``trivial``, ``bayes`` and ``known``."""
    return read_json(folder / f"floor-{prior.name}.json")


def load_results(folder: Path = FOLDER) -> dict[str, dict[int, dict[str, Any]]]:
    """The finished runs of the plan, by name and seed.

    Raises:
        ValueError: a run was tested on another draw than that of the floors.
    """
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for name, case in CASES.items():
        # A digit: another name may go on with "-s".
        paths = sorted(folder.glob(f"{name}-s[0-9]*.json"))
        runs = [read_json(path) for path in paths]
        if not runs:
            continue
        trivial = float(np.mean(load_floor(case.prior, folder)["trivial"]))
        for one in runs:
            if abs(one["trivial_mse"] - trivial) > 1e-4:
                raise ValueError(
                    f"results: {name}, seed {one['seed']}, was tested on another draw than the "
                    f"floors (trivial error {one['trivial_mse']}, expected {trivial:.6f}); "
                    f"remove the file and run again."
                )
        found[name] = {one["seed"]: one for one in runs}
    return found
