"""Rotation: orthogonal, relative, and the matrix that the equations name."""

import cases
import jax.numpy as jnp
import loops
import numpy as np
import pytest

from cem_jax import Rotary
from cem_jax.ops.rotary import rotate, rotation

B, S, H, K = 2, 5, 3, 8


def turned(x, position, rotary=Rotary()):  # noqa: B008 - a frozen dataclass
    return rotate(x, rotation(position, K, rotary, x.dtype))


def at(places):
    return jnp.broadcast_to(jnp.asarray(places, jnp.int32)[None], (B, S))


@pytest.mark.parametrize("rotary", [Rotary(), Rotary(0.5, 100.0), Rotary(0.25)])
def test_rotation_is_the_matrix(rotary, x64):
    x, position = cases.normal("x", B, S, H, K), at([0, 1, 2, 7, 31])
    value = turned(x, position, rotary)
    for s in range(S):
        matrix = loops.rotation_matrix(
            int(position[0, s]), K, round(rotary.fraction * K), rotary.base
        )
        np.testing.assert_allclose(value[:, s], x[:, s] @ matrix.T, rtol=1e-10, atol=1e-10)


def test_rotation_keeps_lengths_and_sees_distances_only(x64):
    x, y = cases.normal("x", B, S, H, K), cases.normal("y", B, S, H, K)
    near, far = at(range(S)), at(range(100, 100 + S))
    lengths = [jnp.linalg.norm(value, axis=-1) for value in (turned(x, far), x)]
    np.testing.assert_allclose(*lengths, rtol=1e-10)
    scores = [
        jnp.einsum("bihk,bjhk->bhij", turned(x, position), turned(y, position))
        for position in (near, far)
    ]
    np.testing.assert_allclose(*scores, rtol=1e-10, atol=1e-10)


def test_no_fraction_is_no_rotation():
    x = cases.normal("x", B, S, H, K)
    assert rotation(at(range(S)), K, Rotary(fraction=0.0), x.dtype) is None
    assert turned(x, at(range(S)), Rotary(fraction=0.0)) is x


def test_bfloat16_angles_are_taken_in_float32():
    position = at([0, 1, 300, 301, 302])
    cos, _ = rotation(position, K, Rotary(), jnp.dtype("bfloat16"))
    assert cos.dtype == jnp.float32
    np.testing.assert_allclose(cos[0, :, 0], np.cos([0, 1, 300, 301, 302]), atol=1e-4)
