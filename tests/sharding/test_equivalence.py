"""Eight simulated devices train what one does, and keep and send what they should."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("eight_devices.py")
ALL = ("single", "data", "fsdp", "fsdp+tensor", "context")
SCATTERED = ("fsdp", "fsdp+tensor")


# XLA's compiler for CPUs widens sums of bfloat16 over devices, and dies of it (jaxlib 0.10.2).
NARROW_SUMS = "--xla_disable_hlo_passes=all-reduce-promotion"


def run(*arguments, flags=""):
    # The package that is tested, wherever it is installed or on the path.
    environment = {**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}"}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 5e-6), ("float64", 1e-12)])
def test_every_mesh_has_the_loss_and_gradients_of_one_device(dtype, bound):
    """Two layers of tiny: T = 2, D+LR with P, everything recomputed, packed rows with padding."""
    found = run("gradients", dtype)
    assert list(found) == list(ALL)
    for name, one in found.items():
        assert one["starts_equal"], name
        assert one["loss"] <= bound, name
        assert one["gradient"] <= bound, (name, one["of"])
    assert found["context"]["gradient"] > 0, "it was not spread at all"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "bound", "meshes"),
    [
        ("float32", 5e-6, ALL),
        ("float64", 1e-12, ALL),
        # What narrow products change does not depend on the mesh.
        ("bfloat16", 0.04, ("single", "data", "fsdp+tensor")),
    ],
)
def test_micro_batches_on_every_mesh_have_the_gradients_of_the_whole_batch(dtype, bound, meshes):
    """Two of eight rows each, whose tokens differ, against sixteen rows on one device.

    With products in bfloat16 gradients were up to 0.018 apart, on one device too.
    """
    flags = NARROW_SUMS if dtype == "bfloat16" else ""
    found = run("accumulated", dtype, *meshes, flags=flags)
    assert list(found) == list(meshes)
    for name, one in found.items():
        assert one["loss"] <= bound, name
        assert 0 < one["gradient"] <= bound, (name, one["of"])
    # Each device cuts its own rows: no rows are sent.
    assert found["single"]["sent"] == []
    assert found["data"]["sent"] == ["all-reduce"]


@pytest.mark.slow
def test_parameters_and_moments_are_born_in_parts_and_stay_so():
    found = run("placement")
    for name, one in found.items():
        assert one["moved"] == [], name
        # Scalars, of which there are a dozen, are whole everywhere; all else is in parts.
        whole = one["whole"] == one["leaves"]
        assert whole == (name not in SCATTERED), name
        assert name not in SCATTERED or one["whole_arrays"] == [], name


@pytest.mark.slow
def test_attention_in_tiles_is_spread_by_its_parts():
    """With grouped keys, a diagonal that heads share, bias, context score and temperature."""
    found = run("tiles")
    assert found["single"]["parts"] == 0
    for name, one in found.items():
        assert one["gradient"] <= 5e-6, (name, one["of"])
        assert name == "single" or one["parts"] > 0, name


@pytest.mark.slow
def test_cem_gathers_one_tensor_where_attention_gathers_two():
    """Positions in eight parts, float32: bytes that the forward pass of a sublayer gathers."""
    found = run("gathered")
    key = found["bytes_of_a_tensor"]
    assert found["cem, no diagonal"] == key
    # The context beside the keys; XLA may gather it alone, and make the keys of it everywhere.
    assert key <= found["cem, shared diagonal"] <= 2 * key
    assert found["mha"] == 2 * key
    # However many steps there are.
    assert found["cem, no diagonal, T = 3"] == key
