"""Model FLOPs utilisation of a run, by hand."""

import io
import json
from types import SimpleNamespace

import pytest
import small_run

from cem_jax import TransformerConfig
from cem_jax.cli.main import main
from cem_jax.models import cost
from cem_jax.runs.progress import LiveLine, RunConsole
from cem_jax.runs.utilisation import Utilisation, median_utilisation
from cem_jax.training import TrainingConfig

V4 = SimpleNamespace(device_kind="TPU v4")


def window(*steps, seconds):
    return [{"step": step, "loss": 2.0, "tokens": 9.0, "seconds": seconds} for step in steps]


def test_utilisation_of_windows_by_hand():
    model, training = TransformerConfig.tiny("llama"), TrainingConfig(batch=8, length=32)
    # Weights of products, each of 6 FLOPs a token; and of the attention the pairs that are seen,
    # in two products of width 128, four layers: 275 TFLOP/s, and four chips.
    matrices = 4 * (4 * 128**2 + 3 * 128 * 344) + 128 * 2048
    flops = 6 * 8 * (32 * matrices + 4 * 2 * (32 * 33 // 2) * 128)
    utilisation = Utilisation(model, training, V4, 4)
    # The first holds the compilation.
    first = window(1, seconds=30.0)
    assert utilisation.add(first) == first
    second = utilisation.add(window(2, 3, 4, 5, seconds=30.5))
    expected = flops / (0.125 * 4 * 275e12)
    assert [record["mfu"] for record in second] == pytest.approx([expected] * 4)
    third = utilisation.add(window(6, 7, seconds=32.5))
    fourth = utilisation.add(window(8, seconds=32.625))
    assert third[0]["mfu"] == pytest.approx(expected / 8)
    metrics = [*first, *second, {"step": 5, "valid_loss": 1.0}, *third, *fourth]
    assert median_utilisation(metrics) == {"mfu": pytest.approx(expected)}


def test_an_unknown_device_has_none():
    model, training = TransformerConfig.tiny("llama"), TrainingConfig()
    utilisation = Utilisation(model, training, SimpleNamespace(device_kind="cpu"), 1)
    for number in range(3):
        records = window(number, seconds=float(number))
        assert utilisation.add(records) == records
    assert median_utilisation(records) == {}


def test_the_live_line_says_it_where_it_is_known():
    console = RunConsole(file=io.StringIO(), force_terminal=True, width=120)
    with LiveLine(console, 10) as line:
        line.record(window(1, seconds=1.0))
    assert "MFU" not in console.file.getvalue()
    with LiveLine(console, 10) as line:
        line.record([{**window(1, seconds=1.0)[0], "mfu": 0.4126}])
    assert "MFU 41.3%" in console.file.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_a_run_writes_it_down_where_the_peak_is_known(
    own_text, tmp_path, monkeypatch, capsys, known
):
    monkeypatch.setattr("cem_jax.runs.sampling.SAMPLE", 5)
    if known:
        monkeypatch.setitem(cost.utilisation._PEAKS, "cpu", cost.utilisation._V4)
    more = ["--report", "valid", *(["--profile", "5:6"] if known else [])]
    assert main(small_run.arguments(own_text, tmp_path / "run", *more)) == 0
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    steps = {record["step"] for record in records if "mfu" in record}
    assert steps == ({3, 4, 5, 6} if known else set())
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert ("mfu" in summary) == known
    printed = capsys.readouterr().out
    assert ("model FLOPs utilisation" in printed) == known
    # So is a trace where it is asked for; and no usual run compiles a step again.
    assert [path.name for path in tmp_path.rglob("profile")] == ["profile"] * 2 * known
    assert ("profile: written to" in printed) == known
    assert "compiled again" not in printed
