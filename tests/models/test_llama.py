"""The baseline's attention with a relative bias, against loops in float64."""

import math

import cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from cem_jax import MHAConfig, Rotary, Sites, Visible

B, L, D, H, W = 2, 5, 8, 2, 3


def build(**options):
    config = MHAConfig(H, rotary=Rotary(fraction=0.0), **options)
    layer = config.build(D, norm_eps=1e-5, dtype="float32", rngs=nnx.Rngs(0))
    return cases.randomize(layer, scale=0.5)


def test_the_bias_is_added_to_the_logit_at_each_distance():
    layer, sites = build(relative_bias=W), cases.packed()
    h = np.asarray(jax.random.normal(jax.random.key(1), (B, L, D)), np.float64)
    weights = {
        name: np.asarray(getattr(layer, name)[...], np.float64) for name in ("wq", "wk", "wv", "wo")
    }
    gain, table = (np.asarray(x[...], np.float64) for x in (layer.norm.gain, layer.bias.table))
    position, segment = np.asarray(sites.position), np.asarray(sites.segment)
    c = h / np.sqrt(np.mean(h**2, axis=-1, keepdims=True) + 1e-5) * gain
    expected = h.copy()
    for b in range(B):
        for i in range(L):
            seen = [
                j
                for j in range(L)
                if segment[b, j] == segment[b, i] != 0 and position[b, j] <= position[b, i]
            ]
            for n in range(H) if seen else ():
                query = c[b, i] @ weights["wq"][:, n]
                logit = [
                    query @ (c[b, j] @ weights["wk"][:, n]) / math.sqrt(D // H)
                    + table[n, min(position[b, i] - position[b, j], W - 1)]
                    for j in seen
                ]
                p = np.exp(logit - np.max(logit))
                read = (p / p.sum()) @ np.stack([c[b, j] @ weights["wv"][:, n] for j in seen])
                expected[b, i] += read @ weights["wo"][n]
    out = layer(jnp.asarray(h, jnp.float32), sites)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_a_fresh_bias_changes_nothing():
    h = jax.random.normal(jax.random.key(1), (B, L, D))
    plain, biased = (
        MHAConfig(H, relative_bias=window).build(
            D, norm_eps=1e-5, dtype="float32", rngs=nnx.Rngs(0)
        )
        for window in (None, W)
    )
    np.testing.assert_array_equal(plain(h, Sites.dense(B, L)), biased(h, Sites.dense(B, L)))


def test_impossible_biases_are_refused():
    with pytest.raises(ValueError, match="relative_bias: got 0"):
        MHAConfig(H, relative_bias=0)
    with pytest.raises(ValueError, match="got one with bidirectional attention"):
        MHAConfig(H, relative_bias=3, visible=Visible(causal=False))
