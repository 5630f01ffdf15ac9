"""Text from a trained model."""

from cem_jax.inference.generate import Sampling, generate, make_next_token

__all__ = ["Sampling", "generate", "make_next_token"]
