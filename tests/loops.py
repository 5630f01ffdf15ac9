"""Energies and their gradients as NumPy loops in float64: written from the equations alone.

Nothing here imports `cem_jax`. Parameters come as a plain dict of arrays, in the layout that the
energies' docstrings name; matrices that rotate are built whole.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import integrate
from scipy.special import expit, ndtr

Arrays = dict[str, Any]


def rotation_matrix(position: int, width: int, rotated: int, base: float) -> np.ndarray:
    """R_i as a matrix: column k of the first half turns with column k + rotated / 2."""
    matrix, half = np.eye(width), rotated // 2
    for k in range(half):
        angle = position * base ** (-2 * k / rotated)
        matrix[k, k] = matrix[k + half, k + half] = math.cos(angle)
        matrix[k, k + half], matrix[k + half, k] = -math.sin(angle), math.sin(angle)
    return matrix


def sees(i: int, j: int, position: np.ndarray, segment: np.ndarray, window: int | None) -> bool:
    """Whether position i of a row sees j."""
    distance = position[i] - position[j]
    near = distance >= 0 and (window is None or distance < window)
    return bool(segment[i] == segment[j] != 0 and near)


def interaction(
    u: np.ndarray,
    c: np.ndarray,
    position: np.ndarray,
    segment: np.ndarray,
    p: Arrays,
    *,
    tau: float,
    fraction: float = 1.0,
    base: float = 10_000.0,
    window: int | None = None,
    score_fraction: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Equations (2) to (5b): the energy of each position, and its gradient in u."""
    heads, groups = p["wq"].shape[1], p["wk"].shape[1]
    energy, gradient = np.zeros(u.shape[:2]), np.zeros(u.shape)
    for b, i in np.ndindex(*u.shape[:2]):
        allowed = [j for j in range(c.shape[1]) if sees(i, j, position[b], segment[b], window)]
        for h in range(heads if allowed else 0):
            logits, values = [], []
            for j in allowed:
                places = (position[b, i], position[b, j])
                score, value = _pair(u[b, i], c[b, j], places, h, groups, p, fraction, base)
                logit = score / tau
                if "bias" in p:
                    logit += p["bias"][h, min(places[0] - places[1], p["bias"].shape[1] - 1)]
                if "score_wq" in p:
                    logit += _context_score(c[b, i], c[b, j], places, h, groups, p, score_fraction)
                logits.append(logit)
                values.append(value)
            top = max(logits)
            weights = np.exp(np.array(logits) - top)
            energy[b, i] -= tau * (top + math.log(weights.sum()))
            gradient[b, i] -= (weights / weights.sum()) @ np.array(values)
    return energy, gradient


def _pair(
    u: np.ndarray,
    c: np.ndarray,
    places: tuple[int, int],
    h: int,
    groups: int,
    p: Arrays,
    fraction: float,
    base: float,
) -> tuple[float, np.ndarray]:
    """s_hij, and its gradient in u: Wq^T R_i^T R_j Wk c + d * c."""
    width, heads = p["wq"].shape[2], p["wq"].shape[1]
    turn = [rotation_matrix(place, width, round(fraction * width), base) for place in places]
    query = p["wq"][:, h]
    key = turn[1] @ p["wk"][:, h // (heads // groups)].T @ c
    value = query @ turn[0].T @ key
    if "d" in p:
        value = value + (p["d"] if p["d"].ndim == 1 else p["d"][h]) * c
    return float(u @ value), value


def _context_score(
    query: np.ndarray,
    key: np.ndarray,
    places: tuple[int, int],
    h: int,
    groups: int,
    p: Arrays,
    fraction: float,
) -> float:
    width, heads = p["score_wq"].shape[2], p["score_wq"].shape[1]
    turn = [rotation_matrix(place, width, round(fraction * width), 10_000.0) for place in places]
    left = turn[0] @ p["score_wq"][:, h].T @ query
    right = turn[1] @ p["score_wk"][:, h // (heads // groups)].T @ key
    return float(left @ right) / math.sqrt(width)


def phi(z: float, activation: str) -> float:
    """The activation."""
    if activation == "silu":
        return z * float(expit(z))
    if activation == "gelu":
        return z * float(ndtr(z))
    return max(z, 0.0) ** 2


def potential(z: float, activation: str) -> float:
    """Phi(z), the integral of phi from minus infinity, by quadrature."""
    if activation == "squared_relu":
        return integrate.quad(phi, 0.0, max(z, 0.0), args=(activation,), epsabs=1e-13)[0]
    tail = integrate.quad(phi, -np.inf, min(z, 0.0), args=(activation,), epsabs=1e-13)[0]
    return tail + integrate.quad(phi, 0.0, max(z, 0.0), args=(activation,), epsabs=1e-13)[0]


def elementwise(
    u: np.ndarray, c: np.ndarray, p: Arrays, form: str, activation: str
) -> tuple[np.ndarray, np.ndarray]:
    """Equation (6): the energy of each position, and its gradient in u."""
    energy, gradient = np.zeros(u.shape[:2]), np.zeros(u.shape)
    for b, i, f in np.ndindex(*u.shape[:2], p["up"].shape[1]):
        gate, up = p["gate"][:, f] @ c[b, i], p["up"][:, f] @ u[b, i]
        if form == "nonlinear":
            energy[b, i] -= gate * potential(up, activation)
            gradient[b, i] -= gate * phi(up, activation) * p["up"][:, f]
        else:
            energy[b, i] -= phi(gate, activation) * up**2 / 2
            gradient[b, i] -= phi(gate, activation) * up * p["up"][:, f]
    return energy, gradient


def memory(u: np.ndarray, p: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """-log sum_m exp(Xi_m . u), and its gradient in u."""
    energy, gradient = np.zeros(u.shape[:2]), np.zeros(u.shape)
    for b, i in np.ndindex(*u.shape[:2]):
        weights = np.exp(p["patterns"].T @ u[b, i])
        energy[b, i] = -math.log(weights.sum())
        gradient[b, i] = -p["patterns"] @ (weights / weights.sum())
    return energy, gradient
