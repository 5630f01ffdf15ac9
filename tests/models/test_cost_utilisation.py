"""Model FLOPs utilisation by hand."""

from types import SimpleNamespace

import jax
import pytest

from cem_jax import TransformerConfig
from cem_jax.models.cost import count_training_flops, mfu, peak_flops


def device(kind):
    return SimpleNamespace(device_kind=kind)


@pytest.mark.parametrize(
    ("kind", "narrow", "wide"),
    [
        ("TPU v4", 275, 275),
        ("TPU v5 lite", 197, 197),
        ("TPU v5", 459, 459),
        ("TPU v6 lite", 918, 918),
        ("NVIDIA A100-SXM4-80GB", 312, 156),
        ("NVIDIA H100 80GB HBM3", 989.4, 494.7),
        ("NVIDIA H200", 989.4, 494.7),
        ("NVIDIA B200", 2250, 1125),
    ],
)
def test_peak_of_a_known_device_in_tera(kind, narrow, wide):
    assert peak_flops(device(kind)) == peak_flops(device(kind), "bfloat16") == narrow * 1e12
    assert peak_flops(device(kind), "float32") == wide * 1e12


def test_utilisation_by_hand():
    # A quarter of what four v6e chips do in half a second.
    flops = 4 * 918e12 * 0.5 / 4
    assert mfu(flops, 0.5, device("TPU v6 lite"), devices=4) == pytest.approx(0.25)
    assert mfu(494.7e12, 2.0, device("NVIDIA H200"), dtype="float32") == pytest.approx(0.5)


def test_utilisation_of_a_step_by_hand():
    # A Llama of one 6 N D model's FLOPs and the attention's visible pairs.
    config = TransformerConfig.tiny("llama")
    matrices = 4 * (4 * 128**2 + 3 * 128 * 344) + 128 * 2048
    flops = 6 * 8 * (32 * matrices + 4 * 2 * (32 * 33 // 2) * 128)
    counted = count_training_flops(config, batch=8, length=32, pairs="visible")
    assert counted == flops
    assert mfu(counted, 1e-3, device("TPU v4")) == pytest.approx(flops / 275e9)


@pytest.mark.parametrize("kind", ["cpu", "NVIDIA H100 PCIe", "NVIDIA H200 NVL", "tpu v4", ""])
def test_an_unknown_device_has_no_utilisation(kind):
    assert mfu(1e12, 1.0, device(kind)) is None


def test_this_cpu_and_an_unknown_dtype_have_none():
    assert mfu(1e12, 1.0, jax.devices("cpu")[0]) is None
    assert mfu(1e12, 1.0, device("NVIDIA H200"), dtype="float64") is None


@pytest.mark.parametrize(
    ("seconds", "devices", "name"), [(0.0, 1, "seconds"), (-1.0, 1, "seconds"), (1.0, 0, "devices")]
)
def test_no_time_and_no_device_are_refused(seconds, devices, name):
    with pytest.raises(ValueError, match=f"{name}: got"):
        mfu(1e12, seconds, device("cpu"), devices=devices)
