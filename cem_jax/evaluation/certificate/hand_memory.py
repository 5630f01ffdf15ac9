"""Retrieval from a learned memory, written by hand."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array

from cem_jax.evaluation.certificate.hand import HandEnergy, Parameters
from cem_jax.ops.visibility import Sites


def hand_memory(parameters: Parameters, c: Array, sites: Sites) -> HandEnergy:
    """-grad = Xi^T softmax(Xi u): attention to the stored patterns, which are key and value."""
    patterns = parameters["patterns"]

    def value(u: Array) -> Array:
        return -jnp.log(jnp.sum(jnp.exp(u @ patterns), axis=-1))

    def update(u: Array) -> Array:
        raised = jnp.exp(u @ patterns)
        return (raised / jnp.sum(raised, axis=-1, keepdims=True)) @ patterns.T

    return HandEnergy(value, update)
