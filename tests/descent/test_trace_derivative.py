"""A trace does not spoil the training derivative."""

import jax
import jax.numpy as jnp
from flax import nnx

from cem_jax import CEMAttention, DescentConfig, InteractionConfig, Sites


def test_padding_has_norm_zero_and_a_finite_derivative():
    layer = CEMAttention(16, InteractionConfig(4), DescentConfig(2), rngs=nnx.Rngs(0))
    h = jax.random.normal(jax.random.key(0), (1, 6, 16))
    sites = Sites(jnp.arange(6)[None], jnp.array([[1, 1, 1, 0, 0, 0]]))
    traced = jax.jit(lambda h: layer.run(h, sites, trace=True))(h)
    assert jnp.all(traced.gradient_norms[..., 3:] == 0)

    def loss(h, trace):
        result = layer.run(h, sites, trace=trace)
        return jnp.sum(result.x) + (jnp.sum(result.gradient_norms) if trace else 0)

    derivative = jax.jit(jax.grad(loss), static_argnums=1)
    assert jnp.all(jnp.isfinite(derivative(h, True)))
    assert jnp.any(derivative(h, True) != derivative(h, False))
