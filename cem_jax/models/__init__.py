"""Layers, where energy meets descent, and the transformers made of them."""

from cem_jax.models.axes import parameter_axes
from cem_jax.models.config import Family, Recipe, TransformerConfig, default_recipe
from cem_jax.models.layer import CEMConfig, CEMLayer
from cem_jax.models.llama import MHAConfig, MHASublayer, SwiGLUConfig, SwiGLUSublayer
from cem_jax.models.modules import CEMMLP, CEMAttention
from cem_jax.models.transformer import Transformer

__all__ = [
    "CEMMLP",
    "CEMAttention",
    "CEMConfig",
    "CEMLayer",
    "Family",
    "MHAConfig",
    "MHASublayer",
    "Recipe",
    "SwiGLUConfig",
    "SwiGLUSublayer",
    "Transformer",
    "TransformerConfig",
    "default_recipe",
    "parameter_axes",
]
