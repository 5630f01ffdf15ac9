"""A causal transformer of attention alone that predicts each value from the pairs before it."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from cem_jax.models.config import SublayerConfig
from cem_jax.models.norm import RMSNorm
from cem_jax.ops.checks import require_count

NORM_EPS = 1e-5


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Layers of one kind between the same input and output maps.

    Attributes:
        input_dim: E.
        dim: D.
        layers: their number.
        attention: `CEMConfig` or `MHAConfig`, or any other sublayer.
    """

    input_dim: int
    dim: int
    layers: int
    attention: SublayerConfig

    def __post_init__(self) -> None:
        for name in ("input_dim", "dim", "layers"):
            require_count(name, getattr(self, name))


class Regressor(nnx.Module):
    """The predicted mean of y_i given x_i and the pairs before it.

    Args:
        config: the description.
        rngs: the stream ``params`` draws the parameters.
    """

    def __init__(self, config: ModelConfig, *, rngs: nnx.Rngs) -> None:
        # x_i, x_{i-1}, y_{i-1}, and whether there is a pair before.
        features = 2 * config.input_dim + 2
        self.enter = nnx.Linear(features, config.dim, rngs=rngs)
        self.embed = nnx.Linear(config.dim, config.dim, rngs=rngs)
        build = config.attention.build
        self.layers = nnx.List(
            build(config.dim, norm_eps=NORM_EPS, dtype="float32", rngs=rngs)
            for _ in range(config.layers)
        )
        self.norm = RMSNorm(config.dim, NORM_EPS)
        self.read = nnx.Linear(config.dim, 1, rngs=rngs)

    def __call__(self, x: Float[Array, "B L E"], y: Float[Array, "B L"]) -> Float[Array, "B L"]:
        """The predictions; that at i does not depend on y_i or on any later pair."""
        h = self.embed(jax.nn.gelu(self.enter(tokens(x, y))))
        for layer in self.layers:
            h = layer(h)
        return self.read(self.norm(h))[..., 0]


def tokens(x: Float[Array, "B L E"], y: Float[Array, "B L"]) -> Float[Array, "B L 2*E+2"]:
    """The question and the last answer in one token: (x_i, x_{i-1}, y_{i-1}, 1 if i > 0 else 0).

    One layer of attention is then able to compare its x_i with the x of every earlier pair and to
    read the y that came with it, which separate tokens for x and y would need two layers for, and
    twice the length. The last entry tells the first token from a pair at the origin.
    """
    pair = jnp.concatenate([x, y[..., None], jnp.ones_like(y)[..., None]], axis=-1)
    before = jnp.pad(pair[:, :-1], ((0, 0), (1, 0), (0, 0)))
    return jnp.concatenate([x, before], axis=-1)
