"""Checksums see any damage, and do not depend on where an array lies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cem_jax.training.fingerprint import _weighted, checksums

DRAW = np.random.default_rng(0)


def straight(array):
    """The sum as it is defined, in Python's numbers."""
    bits = np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")
    return sum((2 * i + 1) * int(w) for i, w in enumerate(bits)) % 2**64


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 4), (0, 3)])
def test_it_is_the_weighted_sum_of_the_bits(dtype, shape):
    array = np.asarray(jnp.asarray(DRAW.standard_normal(shape) * 9, dtype))
    assert checksums({"x": jnp.asarray(array)}) == {"['x']": straight(array)}
    assert checksums({"x": array}) == {"['x']": straight(array)}


def test_parts_add_up_to_the_whole():
    array = DRAW.standard_normal((4, 6)).astype(np.float32)
    parts = [
        _weighted(array[rows, columns], (rows, columns), array.shape)
        for rows in (slice(0, 1), slice(1, 4))
        for columns in (slice(0, 3), slice(3, None))
    ]
    assert sum(parts) % 2**64 == straight(array)


def test_a_flipped_bit_and_an_exchange_are_seen():
    array = DRAW.standard_normal((3, 5)).astype(np.float32)
    seen = {straight(array)}
    for index in np.ndindex(array.shape):
        for bit in range(32):
            other = array.copy()
            other.view(np.uint32)[index] ^= np.uint32(1 << bit)
            seen.add(checksums({"x": other})["['x']"])
    seen.add(checksums({"x": array[::-1]})["['x']"])
    seen.add(checksums({"x": array[:, ::-1]})["['x']"])
    assert len(seen) == 1 + 15 * 32 + 2


def test_keys_of_random_numbers_have_one():
    one, other = (checksums({"key": jax.random.key(seed)}) for seed in (1, 2))
    assert one != other
