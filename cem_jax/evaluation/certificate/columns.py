"""The columns of the certificate: one layer in several hands, and what is measured of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array

from cem_jax.descent import DescentConfig
from cem_jax.energies import ElementwiseConfig, EnergyConfig, InteractionConfig, SumConfig
from cem_jax.evaluation.certificate.compiling import compiled
from cem_jax.evaluation.certificate.hand import HandForm, Parameters
from cem_jax.evaluation.certificate.hand_layer import hand_layer
from cem_jax.evaluation.certificate.problem import DIM, NORM_EPS, Problem
from cem_jax.models import CEMLayer
from cem_jax.ops.attention_backend import PURE, AttentionBackend
from cem_jax.ops.potentials import ElementwiseBackend
from cem_jax.ops.visibility import Sites

Tensors = dict[str, np.ndarray]


class Column(NamedTuple):
    """One way to compute a layer and its energy, for given sites.

    Attributes:
        layer: ``(parameters, h) -> output``.
        energy: ``(parameters, u, c) -> eps [B, L]``.
        slope: ``(parameters, u, c) -> grad_u eps`` by hand; None leaves it to autodiff.
    """

    layer: Callable[[Parameters, Array], Array]
    energy: Callable[[Parameters, Array, Array], Array]
    slope: Callable[[Parameters, Array, Array], Array] | None = None


def library(energy: EnergyConfig, descent: DescentConfig, sites: Sites, dtype: str) -> Column:
    """The layer of this package: columns A and B, which differ by the energy's backend only."""

    def build() -> CEMLayer:
        return CEMLayer(DIM, energy, descent, norm_eps=NORM_EPS, dtype=dtype, rngs=nnx.Rngs(0))

    # Its parameters come from elsewhere: nothing is allocated.
    graph = nnx.graphdef(nnx.eval_shape(build))

    def layer(parameters: Parameters, h: Array) -> Array:
        return nnx.merge(graph, parameters)(h, sites)

    def value(parameters: Parameters, u: Array, c: Array) -> Array:
        own = nnx.merge(graph, parameters).energy
        return own(u.astype(dtype), own.condition(c.astype(dtype), sites))

    return Column(layer, value)


def by_hand(form: HandForm, descent: DescentConfig, sites: Sites) -> Column:
    """Column C."""

    def layer(parameters: Parameters, h: Array) -> Array:
        return hand_layer(form, descent, parameters, h, sites, norm_eps=NORM_EPS)

    def value(parameters: Parameters, u: Array, c: Array) -> Array:
        return form(parameters.get("energy", {}), c, sites).value(u)

    def slope(parameters: Parameters, u: Array, c: Array) -> Array:
        return -form(parameters.get("energy", {}), c, sites).update(u)

    return Column(layer, value, slope)


def on_backend(
    energy: EnergyConfig, attention: AttentionBackend, elementwise: ElementwiseBackend
) -> EnergyConfig:
    """The same energy with other backends; an energy that has none is itself."""
    if isinstance(energy, InteractionConfig):
        return dataclasses.replace(energy, backend=attention)
    if isinstance(energy, ElementwiseConfig):
        return dataclasses.replace(energy, backend=elementwise)
    if isinstance(energy, SumConfig):
        terms = tuple(on_backend(term, attention, elementwise) for term in energy.terms)
        return SumConfig(terms)
    return energy


def shipped_backends(energy: EnergyConfig) -> dict[str, EnergyConfig]:
    """The energy on every backend that runs anywhere; column B has one each."""
    elementwise: list[ElementwiseBackend] = [*get_args(ElementwiseBackend)]
    elementwise.remove("plain")
    found: dict[str, EnergyConfig] = {}
    for first in PURE:
        for second in elementwise:
            config = on_backend(energy, first, second)
            if config not in found.values():
                found[f"{first}/{second}"] = config
    return found


def measure(column: Column, problem: Problem, *, quick: bool = True) -> Tensors:
    """Outputs and all gradients of a column, by name.

    ``layer``: its output, and the gradient of `layer_loss` in h and every parameter;
    ``energy``: its value, and the gradient of `energy_loss` in u, in the context and in every
    parameter of the energy.

    Args:
        column: what is measured.
        problem: in the precision of the column.
        quick: little optimisation by the compiler, which makes a program that runs once fast;
            otherwise it is compiled as a user's is.
    """
    return flatten(compiled(lambda point: _measured(column, point), quick)(problem))


def flatten(tree: Any) -> Tensors:
    """Leaves by dotted path, as NumPy arrays of their own dtype or, for bfloat16, float32."""
    leaves = jax.tree.leaves_with_path(tree)
    names = (jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves)
    wide = (jnp.promote_types(leaf.dtype, jnp.float32) for _, leaf in leaves)
    values = (np.asarray(leaf, dtype) for (_, leaf), dtype in zip(leaves, wide, strict=True))
    return dict(zip(names, values, strict=True))


def layer_loss(output: Array, problem: Problem) -> Array:
    """Half the square of (output - h + noise), h held constant.

    A random functional of the output would cancel the gradient of a scalar to its rounding errors
    by chance; this one follows what the layer did, and the noise lets nothing drop out.
    """
    return jnp.sum(jnp.square(output - problem.h + problem.layer_noise)) / 2


def energy_loss(value: Array, problem: Problem) -> Array:
    """The sum of all energies, with weights of one sign."""
    return jnp.sum(problem.energy_weight * value)


def _measured(column: Column, problem: Problem) -> dict[str, Any]:
    def of_output(parameters: Parameters, h: Array) -> tuple[Array, Array]:
        output = column.layer(parameters, h)
        return layer_loss(output, problem), output

    def of_value(parameters: Parameters, u: Array, c: Array) -> tuple[Array, Array]:
        value = column.energy(parameters, u, c)
        return energy_loss(value, problem), value

    parameters, h, u = problem.parameters, problem.h, problem.u
    (of_layer, of_h), output = jax.grad(of_output, (0, 1), has_aux=True)(parameters, h)
    of_energy, value = jax.grad(of_value, (0, 1, 2), has_aux=True)(parameters, u, h)
    slope = of_energy[1]
    if column.slope is not None:
        slope = problem.energy_weight[..., None] * column.slope(parameters, u, h)
    return {
        "layer": {"output": output, "h": of_h, **of_layer},
        "energy": {
            "value": value,
            "u": slope,
            "context": of_energy[2],
            **of_energy[0].get("energy", {}),
        },
    }
