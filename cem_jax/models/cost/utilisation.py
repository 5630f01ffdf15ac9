"""Model FLOPs utilisation: the part of a device's peak that a model's own products take."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jax.typing import DTypeLike

from cem_jax.ops.checks import require_count, require_positive


@runtime_checkable
class Accelerator(Protocol):
    """A device that says its kind, as every `jax.Device` does."""

    @property
    def device_kind(self) -> str:
        """The kind, as JAX reports it."""
        ...


class Peak(NamedTuple):
    """Dense FLOP/s of matrix products by the dtype of their operands, at JAX's default precision.

    By default products of float32 run in tensorfloat32 on these GPUs and in bfloat16 on TPUs; see
    `jax.lax.Precision`.
    """

    bfloat16: float
    float32: float


# "Peak compute per chip (bf16)", cloud.google.com/tpu/docs, pages v4, v5e, v5p and v6e. On v4 and
# v5p JAX shows both cores of a chip as one device.
_V4 = Peak(275e12, 275e12)
_V5E = Peak(197e12, 197e12)
_V5P = Peak(459e12, 459e12)
_V6E = Peak(918e12, 918e12)
# NVIDIA A100 Tensor Core GPU datasheet; equal for SXM and PCIe.
_A100 = Peak(312e12, 156e12)
# NVIDIA H100 Tensor Core GPU datasheet, SXM: 1979 and 989 with sparsity, halved. H200 SXM: equal.
_HOPPER = Peak(989.4e12, 494.7e12)
# NVIDIA HGX B200 datasheet: 36 and 18 PFLOP/s of eight with sparsity.
_B200 = Peak(2250e12, 1125e12)

_PEAKS = {
    "TPU v4": _V4,
    "TPU v5 lite": _V5E,
    "TPU v5e": _V5E,
    "TPU v5": _V5P,
    "TPU v5p": _V5P,
    "TPU v6 lite": _V6E,
    "TPU v6e": _V6E,
    "NVIDIA A100-SXM4-40GB": _A100,
    "NVIDIA A100-SXM4-80GB": _A100,
    "NVIDIA A100-PCIE-40GB": _A100,
    "NVIDIA A100 80GB PCIe": _A100,
    "NVIDIA H100 80GB HBM3": _HOPPER,
    "NVIDIA H200": _HOPPER,
    "NVIDIA B200": _B200,
}


def peak_flops(device: Accelerator, dtype: DTypeLike = "bfloat16") -> float | None:
    """The peak of a device in FLOP/s, for dense products of a dtype; None where it is unknown.

    Args:
        device: a `jax.Device`; its kind must be one of the table, to the letter.
        dtype: of the operands.
    """
    peak = _PEAKS.get(device.device_kind)
    return None if peak is None else peak._asdict().get(jnp.dtype(dtype).name)


def mfu(
    flops_per_step: int | float,
    seconds: float,
    device: Accelerator,
    *,
    dtype: DTypeLike = "bfloat16",
    devices: int = 1,
) -> float | None:
    """FLOPs per step / (seconds per step * devices * peak), model FLOPs utilisation.

    Args:
        flops_per_step: of the model, such as `count_training_flops` with ``pairs="visible"``:
            blocks that are skipped and work that is repeated are no use of the device.
        seconds: per step, positive.
        device: one of those that share the step.
        dtype: of the products.
        devices: how many share it.

    Returns:
        A fraction; None for a device or a dtype without a known peak, which includes every CPU.

    Raises:
        ValueError: for seconds that are not positive, or fewer devices than one.

    Source: Chowdhery et al., arXiv 2204.02311, appendix B.
    """
    require_positive("seconds", seconds)
    require_count("devices", devices)
    peak = peak_flops(device, dtype)
    return None if peak is None else flops_per_step / (seconds * devices * peak)
