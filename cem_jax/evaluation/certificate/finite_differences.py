"""Column C where nobody wrote the layer by hand: central differences in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from cem_jax.energies import EnergyConfig
from cem_jax.evaluation.certificate.columns import Column, Tensors, energy_loss, flatten, layer_loss
from cem_jax.evaluation.certificate.compiling import compiled
from cem_jax.evaluation.certificate.hand import HandEnergy, HandForm, Parameters
from cem_jax.evaluation.certificate.problem import DIM, Problem
from cem_jax.ops.visibility import Sites

STEP = 1e-3
DIRECTIONS = 3
_OFFSETS = np.asarray([1.0, 2.0, 3.0])
_WEIGHTS = np.asarray([45.0, -9.0, 1.0]) / 60


def central_difference(function: Callable[[Array], Array], step: float = STEP) -> Array:
    """d function / dt at t = 0, of sixth order: sum_k w_k [f(k step) - f(-k step)] / step.

    Exactly zero where the function does not depend on t.

    Args:
        function: of a scalar, with values of any shape.
        step: a smaller one sees more rounding, a larger one more kinks.
    """
    ahead = jax.vmap(function)(jnp.asarray(_OFFSETS * step))
    behind = jax.vmap(function)(jnp.asarray(-_OFFSETS * step))
    return jnp.tensordot(jnp.asarray(_WEIGHTS / step), ahead - behind, axes=1)


def differenced(energy: EnergyConfig) -> HandForm:
    """The form of any energy: its value as it is, its gradient by central differences.

    Column ``d`` of the gradient moves u_d at every position at once, which is the gradient of each
    position's own energy: an energy that looks at another position's variable does not pass.
    """
    graph = nnx.graphdef(nnx.eval_shape(lambda: energy.build(DIM, rngs=nnx.Rngs(0))))

    def form(parameters: Parameters, c: Array, sites: Sites) -> HandEnergy:
        module = nnx.merge(graph, parameters)
        context = module.condition(c, sites)

        def value(u: Array) -> Array:
            return _require_float64(module(u, context))

        def update(u: Array) -> Array:
            def along(axis: Float[Array, "D"]) -> Array:
                return central_difference(lambda t: value(u + t * axis[None, None]))

            return -jnp.moveaxis(jax.lax.map(along, jnp.eye(u.shape[-1], dtype=u.dtype)), 0, -1)

        return HandEnergy(value, update)

    return form


def _require_float64(energies: Array) -> Array:
    if energies.dtype != jnp.float64:
        raise ValueError(
            f"energy: got {energies.dtype} for a float64 variable, expected float64, in which "
            f"central differences are taken; cast with "
            f"x.astype(jnp.promote_types(x.dtype, jnp.float32)), which never narrows."
        )
    return energies


def draw_directions(problem: Problem, seed: int) -> list[dict[str, Any]]:
    """Random directions for every tensor, one tensor at a time: layer's first, then energy's."""
    draw = np.random.default_rng(seed)
    own = problem.parameters.get("energy", {})
    points = [
        {"parameters": problem.parameters, "h": problem.h},
        {"parameters": own, "u": problem.u, "context": problem.h},
    ]
    return [jax.tree.map(lambda leaf: _normal(draw, leaf), point) for point in points]


def _normal(draw: np.random.Generator, leaf: Any) -> np.ndarray:
    return draw.standard_normal((DIRECTIONS, *np.shape(leaf)))


def measure_directions(column: Column, problem: Problem, directions: list[Any]) -> Tensors:
    """What `columns.measure` gives, gradients as slopes along the directions.

    Args:
        column: built on `differenced`.
        problem: in float64.
        directions: those of `draw_directions`.
    """
    parameters, h, u = problem.parameters, problem.h, problem.u

    def of_output(point: Any) -> Array:
        return layer_loss(column.layer(point["parameters"], point["h"]), problem)

    def of_value(point: Any) -> Array:
        whole = {**parameters, "energy": point["parameters"]}
        return energy_loss(column.energy(whole, point["u"], point["context"]), problem)

    of_layer = {"parameters": parameters, "h": h}
    of_energy = {"parameters": parameters.get("energy", {}), "u": u, "context": h}

    def everything(directions: list[Any]) -> Any:
        return {
            "layer": {
                "output": column.layer(parameters, h),
                **_slopes(of_output, of_layer, directions[0]),
            },
            "energy": {
                "value": column.energy(parameters, u, h),
                **_slopes(of_value, of_energy, directions[1]),
            },
        }

    return _without_prefix(flatten(compiled(everything, True)(directions)))


def _slopes(loss: Callable[[Any], Array], point: Any, directions: Any) -> Any:
    """The slope of the loss along each direction of each leaf, a tree like ``point``."""
    leaves, structure = jax.tree.flatten(point)

    def slopes(index: int, along: Array) -> Array:
        def moved(t: Array, direction: Array) -> Array:
            near = [leaf + t * direction if i == index else leaf for i, leaf in enumerate(leaves)]
            return loss(jax.tree.unflatten(structure, near))

        return jax.lax.map(lambda v: central_difference(lambda t: moved(t, v)), along)

    found = [slopes(index, along) for index, along in enumerate(jax.tree.leaves(directions))]
    return jax.tree.unflatten(structure, found)


def project(tensors: Tensors, directions: list[Any]) -> Tensors:
    """The gradients of `columns.measure` as slopes along the directions; values as they are."""
    along = flatten({"layer": directions[0], "energy": directions[1]})
    named = _without_prefix(along)
    return {
        name: np.tensordot(named[name], tensor, axes=tensor.ndim) if name in named else tensor
        for name, tensor in tensors.items()
    }


def _without_prefix(tensors: Tensors) -> Tensors:
    return {name.replace(".parameters", "", 1): tensor for name, tensor in tensors.items()}
