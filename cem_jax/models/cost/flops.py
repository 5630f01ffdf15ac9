"""FLOPs of a model's matrix products, forward and in training."""

from __future__ import annotations

from typing import NamedTuple, get_args

from cem_jax.models.config import SublayerConfig, TransformerConfig
from cem_jax.models.cost.abstract import as_function, build_abstract, on_reference, stream
from cem_jax.models.cost.formulas import Formula, Product, formula
from cem_jax.models.cost.pairs import Pairs, count_pairs
from cem_jax.models.cost.traced import count_flops, count_flops_with_derivative
from cem_jax.ops.checks import require_count, require_one_of

PRODUCTS_IN_TRAINING = 3
"""A product of two operands that both move has two products in its derivative."""


class Flops(NamedTuple):
    """FLOPs, a multiplication and an addition each counted.

    Attributes:
        forward: of the forward pass.
        training: of the forward pass and its derivative, nothing recomputed.
    """

    forward: int
    training: int


def count_forward_flops(config: TransformerConfig, *, batch: int, length: int) -> int:
    """The matrix-product FLOPs of one forward pass over ``[batch, length]`` tokens, all pairs."""
    return _model_flops(config, batch=batch, length=length, pairs="full").forward


def count_training_flops(
    config: TransformerConfig, *, batch: int, length: int, pairs: Pairs = "full"
) -> int:
    """Those of one training step: the forward pass and the derivative in all parameters.

    What `TransformerConfig.remat` and `DescentConfig.remat` recompute is not counted, nor is the
    optimiser. For the utilisation of a device count the ``"visible"`` pairs.

    Args:
        config: of the model.
        batch: B.
        length: L, one document per row.
        pairs: which pairs of positions count. A sublayer without a formula, such as one with a
            user's energy, says nothing of its pairs: there all count.

    Raises:
        ValueError: as `sublayer_flops`.
    """
    return _model_flops(config, batch=batch, length=length, pairs=pairs).training


def _model_flops(config: TransformerConfig, *, batch: int, length: int, pairs: Pairs) -> Flops:
    size = {"batch": batch, "length": length}
    attention = sublayer_flops(config.attention, config.dim, **size, pairs=pairs)
    mlp = sublayer_flops(config.mlp, config.dim, **size, pairs=pairs)
    times = config.layers * config.loops
    blocks = (times * (one + other) for one, other in zip(attention, mlp, strict=True))
    return Flops(*map(sum, zip(blocks, readout_flops(config, **size), strict=True)))


def sublayer_flops(
    config: SublayerConfig, dim: int, *, batch: int, length: int, pairs: Pairs
) -> Flops:
    """Both counts of one sublayer, from its formula or else from its jaxpr, where all pairs count.

    Raises:
        ValueError: for a batch or a length that is no positive integer, another choice of pairs,
            or products in a loop of unknown length.
    """
    require_count("batch", batch)
    require_count("length", length)
    require_one_of("pairs", pairs, get_args(Pairs))
    known = formula(config, dim)
    if known is not None:
        return formula_flops(known, batch=batch, length=length, pairs=pairs)
    # The dtype of the products changes no count.
    sublayer = build_abstract(on_reference(config), dim, "float32")
    function, parameters = as_function(sublayer)
    arguments = parameters, stream(batch, length, dim)
    return Flops(
        count_flops(function, *arguments), count_flops_with_derivative(function, *arguments)
    )


def readout_flops(config: TransformerConfig, *, batch: int, length: int) -> Flops:
    """Both counts of the readout; the embedding is looked up, which takes no product."""
    readout = Formula((Product(config.dim * config.vocab_size),))
    return formula_flops(readout, batch=batch, length=length, pairs="full")


def formula_flops(known: Formula, *, batch: int, length: int, pairs: Pairs) -> Flops:
    """Both counts of a formula."""
    forward = 0
    for size, over in known.products:
        rows = length if over is None else count_pairs(length, over, pairs)
        forward += 2 * size * batch * rows
    return Flops(forward, PRODUCTS_IN_TRAINING * forward)
