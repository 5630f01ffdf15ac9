"""A trace does not spoil the training derivative."""

import jax
import jax.numpy as jnp
from flax import nnx

from cem_jax import CEMAttention, DescentConfig, InteractionConfig, Sites


def test_padding_has_norm_zero_and_a_finite_derivative():
    layer = CEMAttention(16, InteractionConfig(4), DescentConfig(2), rngs=nnx.Rngs(0))
    h = jax.random.normal(jax.random.key(0), (1, 6, 16))
    sites = Sites(jnp.arange(6)[None], jnp.array([[1, 1, 1, 0, 0, 0]]))
    traced = layer.run(h, sites, trace=True)
    assert jnp.all(traced.gradient_norms[..., 3:] == 0)

    def loss(h, trace):
        result = layer.run(h, sites, trace=trace)
        return jnp.sum(result.x) + (jnp.sum(result.gradient_norms) if trace else 0)

    with_norms = jax.grad(loss)(h, True)
    assert jnp.all(jnp.isfinite(with_norms))
    assert jnp.any(with_norms != jax.grad(loss)(h, False))
