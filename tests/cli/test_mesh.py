"""`cem train --mesh`: a run is the same on other devices, and goes on with others."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import small_run

from cem_jax.cli.main import main
from cem_jax.runs import figures
from cem_jax.sharding import Layout


def cem(*arguments, devices=4):
    """The command in a process of its own, with so many simulated devices."""
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": str(devices)}
    return subprocess.run(
        [sys.executable, "-m", "cem_jax.cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
    )


def losses(path):
    lines = map(json.loads, (path / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if "loss" in line]


@pytest.mark.slow
def test_a_run_is_the_same_on_four_devices_and_goes_on_with_another_mesh(
    trained, own_text, tmp_path
):
    run = tmp_path / "run"
    line = small_run.arguments(own_text, run, "--mesh", "fsdp=2,tensor=2")
    done = cem(*line)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(losses(run), losses(trained.path), rtol=2e-6)
    # As if it had been killed after its state of step 4, and went on elsewhere.
    for name in ("checkpoints/6", "summary.json"):
        path = run / name
        subprocess.run(["rm", "-r", str(path)], check=True)
    done = cem("train", "--resume", "--out", run, "--mesh", "data=2,context=2")
    assert done.returncode == 0, done.stderr
    assert "going on from the state of step 4" in done.stdout
    np.testing.assert_allclose(losses(run), losses(trained.path), rtol=2e-6)


def test_a_mesh_that_does_not_fit_is_refused_before_any_work(own_text, tmp_path, capsys):
    for mesh, message in (
        ("fsdp=64", "got fsdp=64 of 64 devices where there"),
        ("fsdp+pipeline", "expected one of single, data, fsdp"),
    ):
        out = tmp_path / "run"
        assert main(small_run.arguments(own_text, out, "--mesh", mesh)) == 2
        assert message in capsys.readouterr().err
        assert not out.exists()


@pytest.mark.slow
def test_a_run_evaluates_for_all_devices_that_have_rows(own_text, tmp_path, monkeypatch):
    """Between steps, and both splits at the end; the four devices are only said to be there."""
    asked, rows = [], figures.evaluated_rows
    monkeypatch.setattr(Layout, "devices_of_rows", property(lambda layout: 4))
    monkeypatch.setattr(figures, "evaluated_rows", lambda r, n: asked.append(n) or rows(r, n))
    line = small_run.arguments(own_text, tmp_path / "run", "--evaluate-every", "6")
    assert main([*line, "--report", "test"]) == 0
    assert asked == [4, 4, 4]
