"""Sequences of pairs from Gaussian processes whose hyper-parameters lie on a grid."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from cem_jax.ops.checks import nearest, require_count, require_positive


def _rbf(r: Any) -> Any:
    return r.__array_namespace__().exp(-r * r / 2)


def _matern12(r: Any) -> Any:
    return r.__array_namespace__().exp(-r)


def _matern32(r: Any) -> Any:
    s = math.sqrt(3) * r
    return (1 + s) * s.__array_namespace__().exp(-s)


def _matern52(r: Any) -> Any:
    s = math.sqrt(5) * r
    return (1 + s + s * s / 3) * s.__array_namespace__().exp(-s)


KERNELS = {"rbf": _rbf, "matern12": _matern12, "matern32": _matern32, "matern52": _matern52}
"""k(r) of distance over length scale, k(0) = 1; for arrays of NumPy and of JAX alike."""


class Point(NamedTuple):
    """One combination of hyper-parameters; ``noise`` is a standard deviation."""

    kernel: str
    length_scale: float
    noise: float


class Draw(NamedTuple):
    """Sequences of pairs, and of each the number of its point on the grid."""

    x: Float[Array, "B L E"]
    y: Float[Array, "B L"]
    point: Int[Array, "B"]


@dataclasses.dataclass(frozen=True)
class Prior:
    """y ~ N(0, k(|x_i - x_j| / length) + noise^2 I), all points of the grid equally likely.

    The prior of the hyper-parameters is discrete, so that the Bayes predictor is a finite sum.

    Attributes:
        name: in file names.
        input_dim: E.
        half_width: inputs are uniform in [-half_width, half_width]^E.
        length_scales: in units of the inputs.
        kernels: names in `KERNELS`; the variance of the function is 1.
        noises: standard deviations of the noise in y.
    """

    name: str
    input_dim: int
    half_width: float
    length_scales: tuple[float, ...]
    kernels: tuple[str, ...] = tuple(KERNELS)
    noises: tuple[float, ...] = (0.05, 0.15, 0.4)

    def __post_init__(self) -> None:
        require_count("input_dim", self.input_dim)
        require_positive("half_width", self.half_width)
        for field in ("length_scales", "noises"):
            for value in getattr(self, field):
                require_positive(field, value)
        for name in self.kernels:
            if name not in KERNELS:
                known = ", ".join(KERNELS)
                hint = nearest(name, KERNELS)
                raise ValueError(f"kernels: got {name!r}, expected names among {known}.{hint}")
        if not self.grid:
            raise ValueError("prior: got an empty grid, expected a value of every hyper-parameter.")

    @property
    def grid(self) -> tuple[Point, ...]:
        """All combinations."""
        combinations = itertools.product(self.kernels, self.length_scales, self.noises)
        return tuple(Point(*values) for values in combinations)

    @functools.partial(jax.jit, static_argnums=(0, 2, 3))
    def sample(self, key: Array, sequences: int, length: int) -> Draw:
        """Independent sequences, float32.

        The noise is part of the covariance that is factorised, which keeps it well conditioned:
        nothing is added to its diagonal.

        Args:
            key: decides the draw.
            sequences: B.
            length: L, pairs of each.
        """
        keys = jax.random.split(key, 3)
        shape = (sequences, length, self.input_dim)
        x = jax.random.uniform(keys[0], shape, minval=-self.half_width, maxval=self.half_width)
        point = jax.random.randint(keys[1], (sequences,), 0, len(self.grid))
        white = jax.random.normal(keys[2], (sequences, length))
        factor = jnp.linalg.cholesky(jax.vmap(self._covariance)(x, point))
        return Draw(x, jnp.einsum("bij,bj->bi", factor, white), point)

    def _covariance(self, x: Float[Array, "L E"], point: Array) -> Float[Array, "L L"]:
        kernel = jnp.array([self.kernels.index(one.kernel) for one in self.grid])[point]
        length_scale = jnp.array([one.length_scale for one in self.grid])[point]
        noise = jnp.array([one.noise for one in self.grid])[point]
        branches = [KERNELS[name] for name in self.kernels]
        signal = jax.lax.switch(kernel, branches, distance(x) / length_scale)
        return signal + noise**2 * jnp.eye(len(x))


def distance(x: Any) -> Any:
    """|x_i - x_j| of inputs ``[..., L, E]``, as ``[..., L, L]``; arrays of NumPy or of JAX."""
    difference = x[..., :, None, :] - x[..., None, :, :]
    return x.__array_namespace__().sqrt((difference * difference).sum(-1))


ONE = Prior("1d", input_dim=1, half_width=2.0, length_scales=(0.25, 0.5, 1.0, 2.0))
"""Inputs on a line: from 16 to 2 length scales long."""

FIVE = Prior("5d", input_dim=5, half_width=1.0, length_scales=(1.0, 2.0, 4.0))
"""Inputs in five dimensions, 1.8 apart on average, so that pairs tell about each other."""
