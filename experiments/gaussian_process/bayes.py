"""The exact Bayes predictors: what no predictor beats on average, at each number of pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from experiments.gaussian_process.prior import KERNELS, Point, Prior, distance

CHUNK = 128
"""Sequences at a time: the covariances of so many are in memory."""


class Prediction(NamedTuple):
    """Of each value from the pairs before it and its own input: N(mean, variance)."""

    mean: Float[np.ndarray, "... L"]
    variance: Float[np.ndarray, "... L"]


def given_point(
    x: Float[np.ndarray, "B L E"], y: Float[np.ndarray, "B L"], point: Point
) -> Prediction:
    """Hyper-parameters known: all one-step-ahead predictions from one Cholesky factor.

    With K + noise^2 I = C C^T and v = C^-1 y,  mean_i = sum_{j<i} C_ij v_j  and
    variance_i = C_ii^2, that of the noisy value: v_i is the standardised surprise at i. Float64.

    Source: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 2.2.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    signal = KERNELS[point.kernel](distance(x) / point.length_scale)
    factor = np.linalg.cholesky(signal + point.noise**2 * np.eye(x.shape[1]))
    scale = np.diagonal(factor, axis1=-2, axis2=-1)
    mean, surprise = np.zeros_like(y), np.zeros_like(y)
    for i in range(y.shape[1]):
        mean[:, i] = np.sum(factor[:, i, :i] * surprise[:, :i], axis=-1)
        surprise[:, i] = (y[:, i] - mean[:, i]) / scale[:, i]
    return Prediction(mean, scale**2)


def known(
    prior: Prior,
    x: Float[np.ndarray, "B L E"],
    y: Float[np.ndarray, "B L"],
    point: Int[np.ndarray, "B"],
) -> Float[np.ndarray, "B L"]:
    """The posterior mean where the hyper-parameters of each sequence are told."""
    mean = np.zeros(np.shape(y))
    for number, values in enumerate(prior.grid):
        rows = np.flatnonzero(np.asarray(point) == number)
        mean[rows] = given_point(np.asarray(x)[rows], np.asarray(y)[rows], values).mean
    return mean


def integrated(
    prior: Prior, x: Float[np.ndarray, "B L E"], y: Float[np.ndarray, "B L"]
) -> Float[np.ndarray, "B L"]:
    """The Bayes predictor: the posterior mean over function and hyper-parameters.

    mean_i = sum_g w_gi mean_gi,  w_gi proportional to prod_{j<i} N(y_j; mean_gj, variance_gj):
    the posterior over the grid g after the pairs before i. Exact, since the grid is the prior.
    """
    parts = range(0, len(y), CHUNK)
    return np.concatenate([_mixture(prior, x[at : at + CHUNK], y[at : at + CHUNK]) for at in parts])


def _mixture(prior: Prior, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    predictions = [given_point(x, y, point) for point in prior.grid]
    mean = np.stack([one.mean for one in predictions])
    variance = np.stack([one.variance for one in predictions])
    density = -((y - mean) ** 2 / variance + np.log(variance)) / 2
    # The evidence of the pairs strictly before i: none before the first.
    evidence = np.pad(np.cumsum(density, axis=-1)[..., :-1], ((0, 0), (0, 0), (1, 0)))
    weight = np.exp(evidence - evidence.max(axis=0))
    return np.sum(weight * mean, axis=0) / weight.sum(axis=0)
