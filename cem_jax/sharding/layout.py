"""Layouts: a mesh and rules, and by them where state, batches and activations live."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import jax
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from cem_jax.ops.constrain import placing
from cem_jax.sharding.mesh import MeshShape
from cem_jax.sharding.rules import RULES, Rules

Tree = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where everything of a run lives.

    Attributes:
        mesh: of the axes `mesh.AXES`; an abstract one says where things would live.
        rules: which of them divide a logical axis.
    """

    mesh: Mesh | AbstractMesh
    rules: Rules = RULES

    @classmethod
    def of(cls, shape: MeshShape | None = None, rules: Rules = RULES) -> Layout:
        """On the first devices; on one by default."""
        return cls((shape or MeshShape()).build(), rules)

    def sharding(self, spec: PartitionSpec | None = None) -> NamedSharding:
        """A spec on this mesh; None is on every device."""
        return NamedSharding(self.mesh, PartitionSpec() if spec is None else spec)

    @property
    def batch(self) -> NamedSharding:
        """Of arrays ``[B, L]``: tokens, targets, mask and sites."""
        return self.sharding(self.rules.activation("B L"))

    @property
    def devices_of_rows(self) -> int:
        """Over how many devices the rows of a batch are spread: B is a multiple of it."""
        return math.prod(self._sizes(self.rules.activation("B")[0]).values())

    def require_batch(self, batch: int, length: int, accumulate: int = 1) -> None:
        """Refuse rows or positions that the devices do not divide.

        Args:
            batch: B.
            length: L.
            accumulate: into how many micro-batches the rows are cut, each spread over the devices.

        Raises:
            ValueError: they do not; the message says which sizes would.
        """
        cut = f"a micro-batch (batch {batch} / accumulate {accumulate})"
        what = "the batch" if accumulate == 1 else cut
        shape = (batch // accumulate, length)
        self._require(what, "B L", shape, self.rules.activation("B L"))

    def parameters(self, shapes: Tree, axes: Tree) -> Tree:
        """A sharding for each parameter.

        Args:
            shapes: of the parameters, a nested dict.
            axes: the names of their axes, see `models.parameter_axes`.

        Raises:
            ValueError: the rules name a mesh axis twice for one, an axis does not divide, or one
                has other axes than names.
        """

        def place(path: tuple[Any, ...], leaf: Any) -> NamedSharding:
            names: Any = axes
            for key in path:
                names = names[key.key]
            spec = self.rules.parameter(names)
            if names is not None:
                self._require("/".join(str(key.key) for key in path), names, leaf.shape, spec)
            return self.sharding(spec)

        return jax.tree_util.tree_map_with_path(place, shapes)

    def state(self, shapes: Tree, axes: Tree) -> Tree:
        """A sharding for each array of a training state; moments live where their parameters do.

        Args:
            shapes: ``{"params": ..., ...}``; what else is in it is placed like the parameter whose
                path it ends with and whose shape it has, or else on every device.
            axes: of the parameters.
        """
        placed = self.parameters(shapes["params"], axes)
        flat = jax.tree_util.tree_leaves_with_path(placed)
        sizes = dict(jax.tree_util.tree_leaves_with_path(shapes["params"]))
        known = {path: (sizes[path].shape, sharding) for path, sharding in flat}

        def place(path: tuple[Any, ...], leaf: Any) -> NamedSharding:
            for start in range(len(path)):
                shape, sharding = known.get(path[start:], (None, None))
                if sharding is not None and shape == leaf.shape:
                    return sharding
            return self.sharding()

        return jax.tree_util.tree_map_with_path(place, shapes)

    def _require(self, what: str, axes: str, shape: tuple[int, ...], spec: PartitionSpec) -> None:
        """Refuse an array that its spec does not divide, or that has other axes than names."""
        if len(axes.split()) != len(shape):
            raise ValueError(
                f"axes: got {axes!r} for {what} of shape {shape}, expected a name for each axis, "
                f"in their order; correct the names, or give none, and it is on every device."
            )
        for name, size, entry in zip(axes.split(), shape, spec, strict=True):
            over = self._sizes(entry)
            if size % math.prod(over.values()):
                fit = [n for n in range(1, size + 1) if size % n == 0 and n <= self.mesh.size]
                raise ValueError(
                    f"mesh: got {' x '.join(f'{axis}={count}' for axis, count in over.items())} "
                    f"for the axis {name} of {what}, which has {size}, expected sizes whose "
                    f"product divides it: {', '.join(map(str, fit))}; choose other sizes, or "
                    f"another {name}."
                )

    def _sizes(self, entry: Any) -> dict[str, int]:
        """The mesh axes of an entry of a spec, and over how many devices each goes."""
        over = () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
        return {axis: self.mesh.shape[axis] for axis in over}

    def scope(self) -> AbstractContextManager[None]:
        """Lay out the activations of what is traced inside the ``with`` block."""
        return placing(self)

    def constrain(self, x: Array, axes: str) -> Array:
        """``x`` as the rules say; an axis that does not divide stays whole. See `ops.constrain`."""
        names = axes.split()
        divided = self._divided(zip(names, x.shape, strict=True))
        # Refuses a mesh axis that is named twice, whatever the sizes.
        self.rules.activation(axes)
        spec = PartitionSpec(*(divided.get(name) or None for name in names))
        return jax.lax.with_sharding_constraint(x, self.sharding(spec))

    def by_parts(
        self, function: Callable[..., Any], inputs: Any, outputs: Any, over: str
    ) -> Callable[..., Any]:
        """``function`` on each device's part of its arguments; see `ops.constrain`."""

        def spread(*arguments: Any) -> Any:
            axes, arrays = jax.tree.leaves(inputs), jax.tree.leaves(arguments)
            sizes = [
                (name, size)
                for each, array in zip(axes, arrays, strict=True)
                for name, size in zip(each.split(), array.shape, strict=True)
                if name in over.split()
            ]
            divided = self._divided(sizes)
            if not any(divided.values()):
                return function(*arguments)
            return self._mapped(function, inputs, outputs, divided)(*arguments)

        return spread

    def _mapped(
        self,
        function: Callable[..., Any],
        inputs: Any,
        outputs: Any,
        divided: dict[str, tuple[str, ...]],
    ) -> Callable[..., Any]:
        """`jax.shard_map` over the mesh axes of ``divided``; what lacks one of them is added up."""
        names = {axis for each in divided.values() for axis in each}

        def spec(axes: str) -> PartitionSpec:
            return PartitionSpec(*(divided.get(name) or None for name in axes.split()))

        def added(axes: str, value: Array) -> Array:
            here = {axis for name in axes.split() for axis in divided.get(name, ())}
            lacking = tuple(axis for axis in self.mesh.axis_names if axis in names - here)
            return jax.lax.psum(value, lacking) if lacking else value

        def part(*arguments: Any) -> Any:
            return jax.tree.map(added, outputs, function(*arguments))

        # That a sum is the same on all devices is not seen through a loop: nothing is checked.
        return jax.shard_map(
            part,
            mesh=self.mesh,
            in_specs=jax.tree.map(spec, inputs),
            out_specs=jax.tree.map(spec, outputs),
            axis_names=names,
            check_vma=False,
        )

    def _divided(self, sizes: Iterable[tuple[str, int]]) -> dict[str, tuple[str, ...]]:
        """The mesh axes that spread each logical axis of activations; none that do not fit."""
        found: dict[str, tuple[str, ...]] = {}
        for name, size in sizes:
            axes = found.get(name, self._dividing(name))
            parts = math.prod(self.mesh.shape[axis] for axis in axes)
            found[name] = () if size % parts else axes
        return found

    def _dividing(self, name: str) -> tuple[str, ...]:
        """The mesh axes that divide a logical axis of activations in more than one part."""
        axes = self.rules.activations.get(name, ())
        return tuple(axis for axis in axes if self.mesh.shape[axis] > 1)
