"""The scripts that compile for several devices, each in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / "benchmarks"
RECORDS = sorted(SCRIPTS.glob("results/meshes*.json"))


def figures(name, out, words):
    """Of each side, by group and name."""
    line = [sys.executable, str(SCRIPTS / f"{name}.py"), *words.split(), "--out", str(out)]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (out / f"{name}.png").is_file()
    groups = json.loads((out / f"{name}.json").read_text())["groups"]
    return {g["name"]: {s["name"]: s["figures"] for s in g["sides"]} for g in groups}


@pytest.mark.slow
def test_attention_sends_two_arrays_and_the_cem_one(tmp_path):
    small = "--devices 2 --batch 2 --length 16 --dim 16 --heads 2"
    (found,) = figures("context_traffic", tmp_path, small).values()
    assert found.pop("mha") == {"sent_bytes": 2 * 4 * 2 * 16 * 16, "sent_arrays": 2}
    assert {side["sent_arrays"] for side in found.values()} == {1}


@pytest.mark.slow
def test_fsdp_holds_half_of_the_state_and_sends_more(tmp_path):
    small = "--devices 2 --batch 2 --length 16 --presets micro --families llama --meshes data fsdp"
    found = figures("meshes", tmp_path, small)
    data, fsdp = found["micro, data=2"]["llama"], found["micro, fsdp=2"]["llama"]
    assert data["parameters"] == fsdp["parameters"]
    assert 0.5 <= fsdp["argument_bytes"] / data["argument_bytes"] < 0.51
    # Each device has its rows' gradients of all parameters, which are summed.
    assert 4 * data["parameters"] <= data["sent_bytes"] < fsdp["sent_bytes"]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_rows_over_devices_send_at_least_the_gradients(path):
    record = json.loads(path.read_text())
    width = {"bfloat16": 2, "float32": 4}[record["settings"]["dtype"]]
    groups = [group for group in record["groups"] if ", data=" in group["name"]]
    assert groups
    for side in (side for group in groups for side in group["sides"]):
        figures = side["figures"]
        assert figures["sent_bytes"] >= width * figures["parameters"], side["name"]
