"""Batches in parts: each process reads the rows that its devices hold, and no others."""

from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from cem_jax.sharding import Layout
from cem_jax.sharding.spread import Spread


def held_by(*indices):
    """A sharding of which this process has these parts."""
    sharding = mock.Mock(spec=NamedSharding)
    sharding.addressable_devices_indices_map.return_value = dict(enumerate(indices))
    return sharding


def test_only_the_rows_of_this_process_are_read():
    both = slice(None)
    spread = Spread(held_by((slice(2, 4), both), (slice(6, 8), both)), (8, 3))
    assert spread.rows.tolist() == [2, 3, 6, 7]
    # Of positions in parts all rows are needed; JAX has None for a device without a part.
    spread = Spread(held_by((slice(None), slice(0, 2)), None), (4, 4))
    assert spread.rows.tolist() == [0, 1, 2, 3]


def test_each_part_lies_where_it_belongs(monkeypatch):
    """What the second of two processes makes of its rows, in pieces as JAX asks for them."""
    asked, made = [(slice(6, 8), slice(0, 1)), (slice(2, 3), slice(1, 3))], []

    def assemble(shape, sharding, piece):
        made.extend(map(piece, asked))
        return jnp.zeros(shape)

    monkeypatch.setattr(jax, "make_array_from_callback", assemble)
    whole = np.arange(24).reshape(8, 3)
    spread = Spread(held_by((slice(2, 4), slice(None)), (slice(6, 8), slice(None))), (8, 3))
    spread(whole[spread.rows])
    assert [piece.tolist() for piece in made] == [whole[index].tolist() for index in asked]


def test_on_one_process_it_is_the_batch():
    batch = np.arange(12).reshape(4, 3)
    spread = Spread(Layout.of().batch, (4, 3))
    assert spread.rows.tolist() == [0, 1, 2, 3]
    placed = spread({"inputs": batch})["inputs"]
    np.testing.assert_array_equal(placed, batch)
    assert placed.sharding == Layout.of().batch
