"""The layer under the two names that a model's author looks for."""

from __future__ import annotations

from typing import Any

from flax import nnx

from cem_jax.descent import DescentConfig
from cem_jax.energies import ElementwiseConfig, InteractionConfig
from cem_jax.models.layer import CEMLayer


class CEMAttention(CEMLayer):
    """Replaces ``h + attention(norm(h))``: a `CEMLayer` on the interaction energy, (2) to (5b).

    ``CEMAttention(256, InteractionConfig(heads=4), DescentConfig(steps=2), rngs=nnx.Rngs(0))``

    Args:
        dim: D.
        energy: heads, diagonal, rotary embedding, visibility.
        descent: how the energy is lowered; one plain step by default.
        rngs: the stream ``params`` draws the parameters.
        options: ``transformation``, ``norm_eps`` and ``dtype`` of `CEMLayer`.
    """

    def __init__(
        self,
        dim: int,
        energy: InteractionConfig,
        descent: DescentConfig | None = None,
        *,
        rngs: nnx.Rngs,
        **options: Any,
    ) -> None:
        _require("CEMAttention", energy, InteractionConfig)
        super().__init__(dim, energy, descent, rngs=rngs, **options)


class CEMMLP(CEMLayer):
    """Replaces ``h + mlp(norm(h))``: a `CEMLayer` on an element-wise energy, (6).

    ``CEMMLP(256, ElementwiseConfig(features=688), DescentConfig(steps=2), rngs=nnx.Rngs(0))``

    Args:
        dim: D.
        energy: feed-forward width, form, activation.
        descent: how the energy is lowered; one plain step by default.
        rngs: the stream ``params`` draws the parameters.
        options: ``transformation``, ``norm_eps`` and ``dtype`` of `CEMLayer`.
    """

    def __init__(
        self,
        dim: int,
        energy: ElementwiseConfig,
        descent: DescentConfig | None = None,
        *,
        rngs: nnx.Rngs,
        **options: Any,
    ) -> None:
        _require("CEMMLP", energy, ElementwiseConfig)
        super().__init__(dim, energy, descent, rngs=rngs, **options)


def _require(name: str, config: Any, kind: type) -> None:
    if not isinstance(config, kind):
        raise ValueError(
            f"{name}: got {config!r}, expected {kind.__name__}(...); for another energy use "
            f"CEMLayer."
        )
