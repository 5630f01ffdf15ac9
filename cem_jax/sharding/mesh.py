"""Meshes: the named axes over which a run is spread, and how many devices each has."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import jax
from jax.sharding import AxisType, Mesh

from cem_jax.ops.checks import require_count

AXES = ("data", "fsdp", "tensor", "context")
"""The axes of every mesh, in this order; one of size 1 divides nothing."""

PRESETS = ("single", "data", "fsdp", "fsdp+tensor", "context")
"""Shapes that follow from the number of devices alone."""


@dataclasses.dataclass(frozen=True)
class MeshShape:
    """How many devices each axis has; the product is how many there are.

    Attributes:
        data: over which the rows of a batch are spread; each device has all parameters.
        fsdp: over which rows are spread too, and each parameter and its moments: a device has a
            part of all, and gathers a layer's where it computes it.
        tensor: over which heads, features and vocabulary are spread.
        context: over which positions are spread; keys are gathered.
    """

    data: int = 1
    fsdp: int = 1
    tensor: int = 1
    context: int = 1

    def __post_init__(self) -> None:
        for name in AXES:
            require_count(f"mesh, {name}", getattr(self, name))

    @classmethod
    def parse(cls, text: str, devices: int) -> MeshShape:
        """The shape that ``--mesh`` names.

        Args:
            text: one of `PRESETS`, or sizes such as ``"fsdp=4,tensor=2"``.
            devices: how many there are, for the presets: "data", "fsdp" and "context" give all to
                that axis, "fsdp+tensor" two to tensor and the rest to fsdp.

        Raises:
            ValueError: it names neither, or two devices do not divide an odd number.
        """
        if text == "single":
            return cls()
        if text == "fsdp+tensor":
            if devices % 2:
                raise ValueError(
                    f"mesh: got 'fsdp+tensor' for {devices} devices, expected an even number of "
                    f"them; give sizes, such as fsdp={devices},tensor=1."
                )
            return cls(fsdp=devices // 2, tensor=2)
        if text in PRESETS:
            return cls(**{text: devices})
        sizes: dict[str, int] = {}
        for part in text.split(","):
            found = re.fullmatch(r"\s*(\w+)\s*=\s*(\d+)\s*", part)
            if found is None or found[1] not in AXES or found[1] in sizes:
                raise ValueError(
                    f"mesh: got {text!r}, expected one of {', '.join(PRESETS)}, or sizes of "
                    f"{', '.join(AXES)}, each once, such as fsdp=4,tensor=2."
                )
            sizes[found[1]] = int(found[2])
        return cls(**sizes)

    @property
    def devices(self) -> int:
        """How many devices it takes."""
        return self.data * self.fsdp * self.tensor * self.context

    @property
    def sizes(self) -> dict[str, int]:
        """Size by axis, in the order of `AXES`."""
        return {name: getattr(self, name) for name in AXES}

    def __str__(self) -> str:
        divided = [f"{name}={size}" for name, size in self.sizes.items() if size > 1]
        return ",".join(divided) or "single"

    def build(self, devices: Sequence[jax.Device] | None = None) -> Mesh:
        """The mesh over the first so many devices, in Auto mode: the compiler places the rest.

        Args:
            devices: which there are; by default all of this run's.

        Raises:
            ValueError: there are too few, or several processes have more than it takes.
        """
        devices = jax.devices() if devices is None else devices
        processes = len({device.process_index for device in devices})
        if processes > 1 and self.devices < len(devices):
            raise ValueError(
                f"mesh: got {self} of {self.devices} devices for {processes} processes that have "
                f"{len(devices)}, expected all of them; take a preset such as --mesh fsdp, or "
                f"sizes whose product is {len(devices)}."
            )
        if self.devices > len(devices):
            raise ValueError(
                f"mesh: got {self} of {self.devices} devices where there are {len(devices)}, "
                f"expected at most these; choose smaller sizes, or run it where there are more."
            )
        sizes, auto = tuple(self.sizes.values()), (AxisType.Auto,) * len(AXES)
        return jax.make_mesh(sizes, AXES, axis_types=auto, devices=devices[: self.devices])
