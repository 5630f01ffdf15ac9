"""The probe that a user's energy must pass: what it finds, and what it lets pass."""

import jax.numpy as jnp
import pytest
from flax import nnx

from cem_jax import CEMAttention, CEMLayer, Energy, EnergyOf, InteractionConfig, Visible
from cem_jax.evaluation.causality import leaks, require_causal


class Next(Energy):
    """Pulled towards what comes next."""

    def __init__(self, dim, *, rngs):
        pass

    def condition(self, c, sites):
        return jnp.roll(c, -1, axis=1)

    def __call__(self, u, context):
        return jnp.sum(jnp.square(u - context), axis=-1)


class Batch(Next):
    """Pulled towards the mean of the batch."""

    def condition(self, c, sites):
        return jnp.broadcast_to(jnp.mean(c, axis=0, keepdims=True), c.shape)


def test_a_causal_layer_lets_nothing_through():
    layer = CEMAttention(8, InteractionConfig(2), rngs=nnx.Rngs(0))
    assert set(leaks(layer, 8).values()) == {0.0}
    require_causal("attention", layer, 8)


@pytest.mark.parametrize(
    ("energy", "seen"),
    [
        (EnergyOf(Next), "the future"),
        (EnergyOf(Batch), "another example"),
        (InteractionConfig(2, visible=Visible(causal=False)), "the future"),
    ],
    ids=["next", "batch", "bidirectional"],
)
def test_what_is_seen_is_named(energy, seen, hook_off):
    layer = CEMLayer(8, energy, rngs=nnx.Rngs(0))
    assert leaks(layer, 8)[seen] > 1e-3
    with pytest.raises(ValueError, match=f"attention: got an energy .* moves with .*{seen}"):
        require_causal("attention", layer, 8)


def test_a_layer_that_forgets_documents_is_found():
    layer = CEMAttention(8, InteractionConfig(2), rngs=nnx.Rngs(0))

    def careless(h, sites):
        length = h.shape[1]
        everywhere = jnp.broadcast_to(jnp.arange(length, dtype=jnp.int32), h.shape[:2])
        return layer(h, sites._replace(position=everywhere, segment=jnp.ones_like(sites.segment)))

    assert leaks(careless, 8)["another document"] > 1e-3
