"""The layer by hand: norm, its derivative, P as a dense matrix, and a Python loop over T."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from cem_jax.descent import DescentConfig
from cem_jax.evaluation.certificate.hand import HandForm, Parameters
from cem_jax.ops.visibility import Sites


def hand_layer(
    form: HandForm,
    descent: DescentConfig,
    parameters: Parameters,
    h: Float[Array, "B L D"],
    sites: Sites,
    *,
    norm_eps: float,
) -> Float[Array, "B L D"]:
    """x <- x + eta_t P_t m,  m <- beta m - grad_u eps(u | c), T times; (1) in all norm modes.

    Args:
        form: the hand form of the energy.
        descent: T, norm mode, momentum beta, P and eta.
        parameters: those of the shipped `CEMLayer`.
        h: ``[B, L, D]``.
        sites: positions and segments.
        norm_eps: of the RMS norm.

    Returns:
        ``[B, L, D]``, the output of the layer.
    """
    mode = descent.norm_mode
    gain = None if mode == "none" else parameters["norm"]["gain"]
    c = h if gain is None else _norm(h, gain, norm_eps)
    energy = form(parameters.get("energy", {}), c, sites)
    x = c if mode == "once" else h
    momentum = jnp.zeros_like(h)
    for step in range(descent.steps):
        if gain is None or mode == "once":
            direction = energy.update(x)
        else:
            direction = energy.update(_norm(x, gain, norm_eps))
            if mode == "exact":
                direction = _norm_transpose(x, gain, norm_eps, direction)
        momentum = descent.momentum * momentum + direction
        matrix = preconditioner_matrix(descent, parameters, step, h)
        x = x + _step_size(descent, parameters, step) * (momentum @ matrix)
    return h + x - c if mode == "once" else x


def _norm(x: Array, gain: Array, eps: float) -> Array:
    """g * x / sqrt(mean(x^2) + eps)."""
    size = jnp.sqrt(jnp.sum(x * x, axis=-1, keepdims=True) / x.shape[-1] + eps)
    return gain[None, None] * x / size


def _norm_transpose(x: Array, gain: Array, eps: float, v: Array) -> Array:
    """J^T v with J = d norm(x) / dx:  g v / r - x <g v, x> / (D r^3),  r the root mean square."""
    size = jnp.sqrt(jnp.sum(x * x, axis=-1, keepdims=True) / x.shape[-1] + eps)
    scaled = gain[None, None] * v
    along = jnp.sum(scaled * x, axis=-1, keepdims=True)
    return scaled / size - x * along / (x.shape[-1] * size**3)


def preconditioner_matrix(
    descent: DescentConfig, parameters: Parameters, step: int, h: Array
) -> Float[Array, "D D"]:
    """P_t of (8), dense."""
    if descent.preconditioner is None:
        return jnp.eye(h.shape[-1], dtype=h.dtype)
    factors = [parameters["preconditioner"][name] for name in ("diagonal", "left", "right")]
    if descent.preconditioner.learn == "step":
        factors = [factor[step] for factor in factors]
    d, left, right = factors
    if descent.preconditioner.definite:
        factor = jnp.diag(d) + left @ right.T
        return factor @ factor.T
    return jnp.diag(jnp.log(1 + jnp.exp(d))) + left @ right.T + right @ left.T


def _step_size(descent: DescentConfig, parameters: Parameters, step: int) -> Array | float:
    """eta_t of (9)."""
    if descent.step_size.learn == "fixed":
        return descent.step_size.initial
    raw = parameters["step_size"]["raw"]
    return jnp.exp(raw[step] if descent.step_size.learn == "step" else raw)
