"""A sublayer alone as a side: its output, or the gradient of a training step."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx

from cem_jax import CEMConfig, DescentConfig, ElementwiseConfig, InteractionConfig, Sites
from cem_jax.descent import PreconditionerConfig
from cem_jax.models.config import Recipe, SublayerConfig, preset_descents
from cem_jax.models.cost import PRODUCTS_IN_TRAINING, count_flops
from cem_jax.runs.benchmark.compiled import temporary_bytes
from cem_jax.runs.benchmark.shape import LayerShape
from cem_jax.runs.benchmark.timing import Side

What = Literal["forward", "step"]

LAYERS = 6
"""Of the preset whose step size a layer here has."""


def descents(steps: int, *, preconditioned: bool) -> tuple[DescentConfig, DescentConfig]:
    """Those of the presets' attention and MLP, with or without P."""
    matrix = PreconditionerConfig(rank=16) if preconditioned else None
    return preset_descents(Recipe(steps, preconditioner=matrix), LAYERS)


def attention(
    shape: LayerShape, steps: int, *, diagonal: str, preconditioned: bool, backend: str
) -> CEMConfig:
    """The attention layer of a preset."""
    options: Any = {"diagonal": diagonal, "backend": backend}
    energy = InteractionConfig(shape.heads, **options)
    return CEMConfig(energy, descents(steps, preconditioned=preconditioned)[0])


def mlp(shape: LayerShape, steps: int, *, preconditioned: bool) -> CEMConfig:
    """The MLP layer of a preset."""
    energy = ElementwiseConfig(shape.features)
    return CEMConfig(energy, descents(steps, preconditioned=preconditioned)[1])


class Sublayer:
    """A sublayer as pure functions of its parameters, its input and the sites.

    Args:
        config: of the sublayer.
        shape: of it and of its input.
    """

    def __init__(self, config: SublayerConfig, shape: LayerShape) -> None:
        self._config, self._shape = config, shape
        self._graph = nnx.split(nnx.eval_shape(self._build))[0]

    def _build(self) -> Any:
        common = {"norm_eps": 1e-5, "dtype": self._shape.dtype}
        return self._config.build(self._shape.dim, rngs=nnx.Rngs(0), **common)

    def forward(self, params: Any, h: jax.Array, sites: Sites) -> jax.Array:
        """The output."""
        return nnx.merge(self._graph, params)(h, sites)

    def gradient(self, params: Any, h: jax.Array, sites: Sites, cotangent: jax.Array) -> Any:
        """Of <output, cotangent>, with respect to parameters and input."""

        def inner(params: Any, h: jax.Array) -> jax.Array:
            return jnp.sum(self.forward(params, h, sites) * cotangent)

        return jax.grad(inner, argnums=(0, 1))(params, h)

    def arguments(self, what: What) -> tuple[Any, ...]:
        """Parameters and arrays that the function takes."""
        shape = self._shape
        params = nnx.to_pure_dict(nnx.state(self._build(), nnx.Param))
        h, cotangent = jax.random.normal(
            jax.random.key(0), (2, shape.batch, shape.length, shape.dim)
        )
        # Handed over as in training, where the sites come with the batch and are no constants.
        arrays = (params, h, Sites.dense(shape.batch, shape.length))
        return (*arrays, cotangent) if what == "step" else arrays

    def compile(self, what: What) -> Any:
        """The compiled program; nothing is allocated."""
        function = self.gradient if what == "step" else self.forward
        return jax.jit(function).lower(*self.abstract(what)).compile()

    def abstract(self, what: What) -> tuple[Any, ...]:
        """The shapes of `arguments`."""
        return jax.eval_shape(lambda: self.arguments(what))

    def flops(self) -> int:
        """Matrix-product FLOPs of a forward pass."""
        return count_flops(self.forward, *self.abstract("forward"))


def layer_side(name: str, config: SublayerConfig, shape: LayerShape, what: What) -> Side:
    """A compiled sublayer that is ready to run, with ``flops`` and ``temporary_bytes``."""
    layer = Sublayer(config, shape)
    compiled, arguments = layer.compile(what), layer.arguments(what)

    def run() -> None:
        jax.block_until_ready(compiled(*arguments))

    flops = layer.flops() * (PRODUCTS_IN_TRAINING if what == "step" else 1)
    return Side(name, run, {"flops": flops, "temporary_bytes": temporary_bytes(compiled)})
