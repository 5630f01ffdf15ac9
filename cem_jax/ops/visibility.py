"""Which position may see which: the sites of positions, and the rule between two of them."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from cem_jax.ops.checks import require_count, require_kind
from cem_jax.ops.constrain import constrain


class Sites(NamedTuple):
    """Where positions stand: two integer vectors per example, never a mask.

    Attributes:
        position: ``[B, S]``, the position within its document, from 0.
        segment: ``[B, S]``, the document's number within the row, from 1. Zero is padding.
    """

    position: Int[Array, "B S"]
    segment: Int[Array, "B S"]

    @classmethod
    def dense(cls, batch: int, length: int) -> Sites:
        """Rows that each hold one whole document: position 0 .. length - 1, segment 1."""
        position = jnp.broadcast_to(jnp.arange(length, dtype=jnp.int32)[None], (batch, length))
        return cls(position, jnp.ones((batch, length), jnp.int32))


def of_keys(sites: Sites) -> Sites:
    """Sites of the context as keys have them: all positions, where a mesh spreads the queries'."""
    return Sites(constrain(sites.position, "B S"), constrain(sites.segment, "B S"))


def distances(query: Sites, key: Sites) -> Int[Array, "B L S"]:
    """position_i - position_j, signed: the difference of unsigned positions would wrap around."""
    rows, columns = (sites.position.astype(jnp.int32) for sites in (query, key))
    return rows[:, :, None] - columns[:, None, :]


def sites_or_dense(h: Array, sites: Sites | None) -> Sites:
    """The caller's sites, checked against ``h [B, L, D]``; rows of one document by default."""
    if sites is None:
        return Sites.dense(h.shape[0], h.shape[1])
    if not isinstance(sites, Sites):
        raise ValueError(
            f"sites: got {type(sites).__name__}, expected Sites(position, segment) or None."
        )
    for name, value in zip(("position", "segment"), sites, strict=True):
        shape = getattr(value, "shape", None)
        if shape != h.shape[:2]:
            got = type(value).__name__ if shape is None else f"shape {shape}"
            raise ValueError(
                f"sites.{name}: got {got}, expected {h.shape[:2]}, the batch and "
                f"length of the input {h.shape}; give one integer per position."
            )
        if not jnp.issubdtype(value.dtype, jnp.integer):
            raise ValueError(
                f"sites.{name}: got dtype {value.dtype}, expected an integer dtype; cast with "
                f".astype(jnp.int32)."
            )
    return sites


@dataclasses.dataclass(frozen=True)
class Visible:
    """The rule of visibility; static, hence part of an energy's constructor.

    Position ``i`` sees ``j`` iff ``segment_j = segment_i != 0`` and, where ``causal``,
    ``0 <= position_i - position_j``, and, where a ``window`` is set,
    ``|position_i - position_j| < window``. A padding query sees nothing.

    Attributes:
        causal: whether the future is hidden.
        window: how many positions are visible, the own one included; at least 1. None: all.
        packed: whether a row may hold several documents or padding. False promises that each is one
            whole document, whose positions count up from its first: segments are then not looked
            at. Kernels that know no segments ask for it.
    """

    causal: bool = True
    window: int | None = None
    packed: bool = True

    def __post_init__(self) -> None:
        require_kind("causal", self.causal, bool)
        require_kind("packed", self.packed, bool)
        if self.window is not None:
            require_count("window", self.window)

    def read(self, sites: Sites) -> Sites:
        """Sites as this rule takes them: of rows that are not packed, one document each."""
        return sites if self.packed else sites._replace(segment=jnp.ones_like(sites.segment))

    def allowed(self, query: Sites, key: Sites) -> Bool[Array, "B L S"]:
        """The boolean mask of a tile of queries against a tile of keys."""
        same = query.segment[:, :, None] == key.segment[:, None, :]
        allowed = same & (query.segment != 0)[:, :, None]
        distance = distances(query, key)
        if self.causal:
            allowed &= distance >= 0
        if self.window is not None:
            allowed &= jnp.abs(distance) < self.window
        return allowed
