"""A small grid, a training of seconds, and made-up results."""

import pytest


@pytest.fixture
def prior():
    """A small grid."""
    from experiments.gaussian_process.prior import Prior

    return Prior("1d", 1, 2.0, length_scales=(0.3, 1.5), kernels=("rbf", "matern12"), noises=(0.1,))


@pytest.fixture
def tiny():
    """A training of seconds."""
    from experiments.gaussian_process.train import Training

    return Training(
        steps=4, sequences=2, length=32, warmup=1, checks=2, test_sequences=8,
        validation_sequences=4,
    )  # fmt: skip


@pytest.fixture
def floor():
    """Made-up errors of the floors at 64 positions."""
    return {"trivial": [1.0] * 64, "bayes": [1.0] + [0.5] * 47 + [0.2] * 16, "known": [0.1] * 64}


@pytest.fixture
def folder(tmp_path, floor):
    """T = 1 with two seeds, T = 2 with three, MHA with one; T = 4 of two layers without T = 1."""
    from experiments.gaussian_process.plan import CASES
    from experiments.gaussian_process.results import run_path, write

    for name in ("1d", "5d"):
        write(tmp_path / f"floor-{name}.json", floor)
    errors = {
        "1d-1layer-cem-t1": {0: 0.6, 1: 0.7},
        "1d-1layer-cem-t2": {0: 0.5, 1: 0.65, 2: 0.1},
        "1d-1layer-mha": {1: 0.6},
        "1d-2layer-cem-t4": {0: 0.6},
        "5d-1layer-cem-t1": {0: 0.9},
    }
    for name, seeds in errors.items():
        for seed, error in seeds.items():
            record = {"seed": seed, "trivial_mse": 1.0, "test_mse": [error] * 64}
            record |= {"parameters": 1234, "processor_seconds": 20.0}
            write(run_path(CASES[name], seed, tmp_path), record)
    return tmp_path
