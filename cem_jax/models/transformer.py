"""The decoder: embedding, blocks stacked and scanned, norm, readout."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from cem_jax.models.config import Sublayer, TransformerConfig
from cem_jax.models.layer import CEMConfig
from cem_jax.models.norm import RMSNorm
from cem_jax.ops.constrain import constrain
from cem_jax.ops.contract import contract
from cem_jax.ops.parameters import fan_in, parameter
from cem_jax.ops.readout import readout_cross_entropy, readout_nats
from cem_jax.ops.remat import rematerialised
from cem_jax.ops.visibility import Sites, sites_or_dense

STRAIGHT = 8
"""Up to so many blocks compile to straight code, which keeps what a derivative needs where it is: a
scan copies it into stacks, a tenth of a training step. More are scanned, and so are those that are
computed again, since the compiler would merge the copies; compile time stays bounded either way."""


class Block(nnx.Module):
    """An attention sublayer, then an MLP sublayer."""

    def __init__(self, config: TransformerConfig, *, rngs: nnx.Rngs) -> None:
        common: dict[str, Any] = {"norm_eps": config.norm_eps, "dtype": config.dtype, "rngs": rngs}
        self.remat = config.remat
        self.attention: Sublayer = config.attention.build(config.dim, **common)
        self.mlp: Sublayer = config.mlp.build(config.dim, **common)

    def __call__(self, h: Float[Array, "B L D"], sites: Sites) -> Float[Array, "B L D"]:
        """The next ``h``; what remat has recomputed is so for each sublayer by itself."""
        for sublayer in (self.attention, self.mlp):
            h = rematerialised(sublayer, self.remat)(h, sites)
        return h


class Transformer(nnx.Module):
    """Logits of the next token at each position.

    Args:
        config: the description, kept as ``config``.
        rngs: the stream ``params`` draws the parameters.

    Parameters: ``embedding [V, D]``; ``blocks``, those of one block with the layer axis in front;
    ``norm.gain [D]``; ``readout [V, D]`` unless tied.
    """

    def __init__(self, config: TransformerConfig, *, rngs: nnx.Rngs) -> None:
        self.config = config
        shape = (config.vocab_size, config.dim)
        self.embedding = parameter(fan_in(rngs, shape, config.dim), "V D")
        stack = nnx.vmap(lambda keys: Block(config, rngs=keys), in_axes=0, out_axes=0)
        self.blocks = stack(rngs.split(config.layers))
        self.norm = RMSNorm(config.dim, config.norm_eps)
        tied = config.tie_embeddings
        self.readout = None if tied else parameter(fan_in(rngs, shape, config.dim), "V D")

    def __call__(
        self, tokens: Int[Array, "B L"], sites: Sites | None = None
    ) -> Float[Array, "B L V"]:
        """The logits, in the compute dtype.

        Args:
            tokens: ``[B, L]``, in [0, V).
            sites: positions and segments; by default each row is one document.
        """
        return self.logits(self.hidden(tokens, sites))

    def hidden(
        self, tokens: Int[Array, "B L"], sites: Sites | None = None
    ) -> Float[Array, "B L D"]:
        """The normed residual stream after the last block, float32."""
        _require_tokens(tokens)
        h = constrain(self.embedding[...][tokens], "B L D")
        sites = sites_or_dense(h, sites)
        graph, stack = nnx.split(self.blocks)

        def block(h: Array, parameters: Any) -> tuple[Array, None]:
            return nnx.merge(graph, parameters)(h, sites), None

        unroll, loops = self._unroll(), self.config.loops

        def loop(h: Array, _: None) -> tuple[Array, None]:
            return jax.lax.scan(block, h, stack, unroll=unroll)[0], None

        if loops > 1:
            h = jax.lax.scan(loop, h, length=loops, unroll=loops if unroll > 1 else 1)[0]
        else:
            h = loop(h, None)[0]
        return self.norm(h)

    def logits(self, hidden: Float[Array, "B L D"]) -> Float[Array, "B L V"]:
        """The readout of `hidden`."""
        return constrain(contract(*self._read(hidden), y_end="back"), "B L V")

    def cross_entropy(
        self,
        tokens: Int[Array, "B L"],
        targets: Int[Array, "B L"],
        mask: Bool[Array, "B L"],
        sites: Sites | None = None,
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Summed nats and the number of targets in the mask, without whole logits.

        See `ops.readout.readout_cross_entropy`.
        """
        hidden, matrix = self._read(self.hidden(tokens, sites))
        return readout_cross_entropy(hidden, matrix, targets, mask)

    def nats(
        self,
        tokens: Int[Array, "B L"],
        targets: Int[Array, "B L"],
        mask: Bool[Array, "B L"],
        sites: Sites | None = None,
    ) -> Float[Array, "B L"]:
        """The nats of each target, zero outside the mask, without whole logits."""
        return readout_nats(*self._read(self.hidden(tokens, sites)), targets, mask)

    def _unroll(self) -> int:
        """How many blocks are compiled as straight code."""
        config = self.config
        sublayers = (config.attention, config.mlp)
        steps = [part.descent.remat for part in sublayers if isinstance(part, CEMConfig)]
        again = {config.remat, *steps} != {"none"}
        straight = config.layers * config.loops <= STRAIGHT and not again
        return config.layers if straight else 1

    def _read(self, hidden: Array) -> tuple[Array, Array]:
        """The operands of the readout, in the compute dtype."""
        matrix = self.embedding if self.readout is None else self.readout
        return hidden.astype(self.config.dtype), matrix[...].astype(self.config.dtype)


def _require_tokens(tokens: Array) -> None:
    shape, dtype = getattr(tokens, "shape", None), getattr(tokens, "dtype", None)
    if dtype is None or shape is None or len(shape) != 2 or not jnp.issubdtype(dtype, jnp.integer):
        got = type(tokens).__name__ if shape is None else f"shape {shape}, dtype {dtype}"
        raise ValueError(f"tokens: got {got}, expected an integer array [B, L].")
