"""The cost of a model, part by part."""

from __future__ import annotations

import dataclasses

from cem_jax.models.config import SublayerConfig, TransformerConfig
from cem_jax.models.cost.abstract import build_abstract
from cem_jax.models.cost.activations import readout_activation_bytes, sublayer_activation_bytes
from cem_jax.models.cost.cache import cache_bytes_per_token
from cem_jax.models.cost.flops import readout_flops, sublayer_flops
from cem_jax.models.cost.pairs import Pairs
from cem_jax.models.cost.parameters import count_size


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a part of a model costs; parts add up, and repeat by a factor.

    Attributes:
        parameters: how many.
        forward_flops: of the matrix products of one forward pass.
        training_flops: of those and of their derivative, nothing recomputed.
        activation_bytes: what a training step keeps of its forward pass for the derivative, after
            remat; see `cost.activations`.
        cache_bytes_per_token: what decoding keeps of each token; None where no one knows.
    """

    parameters: int = 0
    forward_flops: int = 0
    training_flops: int = 0
    activation_bytes: int = 0
    cache_bytes_per_token: int | None = 0

    def __add__(self, other: Cost) -> Cost:
        mine, others = self.cache_bytes_per_token, other.cache_bytes_per_token
        return Cost(
            self.parameters + other.parameters,
            self.forward_flops + other.forward_flops,
            self.training_flops + other.training_flops,
            self.activation_bytes + other.activation_bytes,
            None if mine is None or others is None else mine + others,
        )

    def __mul__(self, times: int) -> Cost:
        cache = self.cache_bytes_per_token
        return Cost(
            times * self.parameters,
            times * self.forward_flops,
            times * self.training_flops,
            times * self.activation_bytes,
            None if cache is None else times * cache,
        )


@dataclasses.dataclass(frozen=True)
class TransformerCost:
    """The parts of a model's cost.

    Attributes:
        embedding: the table, which is looked up without a product.
        attention: one attention sublayer, its norm included.
        mlp: one MLP sublayer, its norm included.
        readout: the last norm, the readout matrix unless it is tied, and the loss.
        layers: how many blocks of one attention and one MLP sublayer there are.
        loops: how many times the stream goes through them.
    """

    embedding: Cost
    attention: Cost
    mlp: Cost
    readout: Cost
    layers: int
    loops: int = 1

    @property
    def blocks(self) -> Cost:
        """All sublayers of all blocks; a further loop brings no parameters, and costs the rest."""
        block = self.attention + self.mlp
        whole = block * (self.layers * self.loops)
        return dataclasses.replace(whole, parameters=block.parameters * self.layers)

    @property
    def total(self) -> Cost:
        """The whole model."""
        return self.embedding + self.blocks + self.readout


def count_cost(
    config: TransformerConfig, *, batch: int, length: int, pairs: Pairs = "full"
) -> TransformerCost:
    """What one pass over ``[batch, length]`` tokens costs, part by part.

    Args:
        config: of the model.
        batch: B.
        length: L, one document per row.
        pairs: ``"full"`` counts the FLOPs of all pairs of positions, as a dense product forms
            them; ``"visible"`` those of the pairs that may be seen.

    Returns:
        A `TransformerCost`.

    Raises:
        ValueError: for another choice of pairs, or products in a loop of unknown length.
    """
    table = config.vocab_size * config.dim

    def sublayer(part: SublayerConfig) -> Cost:
        return _sublayer(part, config, batch=batch, length=length, pairs=pairs)

    return TransformerCost(
        embedding=Cost(parameters=table),
        attention=sublayer(config.attention),
        mlp=sublayer(config.mlp),
        readout=Cost(
            config.dim + (0 if config.tie_embeddings else table),
            *readout_flops(config, batch=batch, length=length),
            readout_activation_bytes(config, batch=batch, length=length),
        ),
        layers=config.layers,
        loops=config.loops,
    )


def _sublayer(
    part: SublayerConfig, config: TransformerConfig, *, batch: int, length: int, pairs: Pairs
) -> Cost:
    size = {"batch": batch, "length": length}
    return Cost(
        count_size(build_abstract(part, config.dim, config.dtype)),
        *sublayer_flops(part, config.dim, **size, pairs=pairs),
        sublayer_activation_bytes(part, config, **size),
        cache_bytes_per_token(part, config.dim, dtype=config.dtype),
    )
