"""The shape at which models are compared."""

from __future__ import annotations

import dataclasses
from typing import Literal

from cem_jax.ops.checks import head_width, require_count, require_one_of


@dataclasses.dataclass(frozen=True)
class LayerShape:
    """Of a sublayer and its input; the default is that of the preset ``small``."""

    batch: int = 8
    """B, rows of a batch."""

    length: int = 256
    """L, tokens of a row."""

    dim: int = 256
    """D, the width."""

    heads: int = 4
    """H."""

    features: int = 688
    """F, the width of the MLP."""

    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the products; parameters and the residual stream are float32."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.name != "dtype":
                require_count(field.name, getattr(self, field.name))
        require_one_of("dtype", self.dtype, ("float32", "bfloat16"))
        head_width(self.dim, self.heads, None)


@dataclasses.dataclass(frozen=True)
class Shape(LayerShape):
    """Of the models and of a batch; the default is that of the preset ``small``."""

    vocab_size: int = 8192
    """V."""

    layers: int = 6
    """The number of blocks."""
