"""Which tiles a tile reaches: all that it sees, and few others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cem_jax import Sites, Visible
from cem_jax.ops.attention_terms import AttentionTerms
from cem_jax.ops.kernels.pallas_gpu_layout import lay_out, reach, reached


@pytest.fixture
def packed(packed):
    """Filled up with padding to a multiple of four, and of three."""
    return Sites(*(jnp.pad(x, [(0, 0), (0, 20)]) for x in packed))


def masked_tiles(visible, sites, size):
    """Which pairs of tiles hold a pair that is seen, from the whole mask."""
    mask = np.asarray(visible.allowed(sites, sites))
    batch, count = mask.shape[0], mask.shape[1] // size
    return mask.reshape(batch, count, size, count, size).any(axis=(2, 4))


@pytest.mark.parametrize(
    "visible",
    [Visible(), Visible(causal=False), Visible(window=6), Visible(causal=False, window=6)],
)
def test_bounds_hold_every_tile_that_is_seen(visible, packed):
    seen = masked_tiles(visible, packed, 4)
    index = np.arange(seen.shape[2])
    for bounds, tiles in ((reach, seen), (reached, seen.swapaxes(1, 2))):
        first, last = (np.asarray(x)[..., None] for x in bounds(visible, packed, packed, (4, 4)))
        assert not (tiles & ~((first <= index) & (index < last))).any()


def test_in_whole_documents_they_hold_no_other():
    sites = Sites.dense(1, 40)
    for visible in (Visible(), Visible(window=6), Visible(causal=False, window=6)):
        first, last = reach(visible, sites, sites, (4, 4))
        seen = masked_tiles(visible, sites, 4)
        assert (last - first == seen.sum(axis=2)).all(), visible


def test_documents_and_padding_bound_what_is_read(packed):
    first, last = reach(Visible(causal=False), packed, packed, (3, 3))
    # Row 0: a document of 18 positions, in six tiles; one of 15, in five; and padding.
    assert first[0].tolist() == [0] * 6 + [6] * 5 + [0] * 9
    assert last[0].tolist() == [6] * 6 + [11] * 5 + [0] * 9


@pytest.mark.parametrize(
    ("width", "score", "dtype", "length", "tile"),
    [
        (64, None, "bfloat16", 4096, 64),
        (128, None, "bfloat16", 4096, 64),
        (128, 32, "bfloat16", 4096, 32),
        (256, None, "bfloat16", 4096, 32),
        (40, 24, "float32", 4096, 16),
        (64, None, "float32", 4096, 32),
        (64, None, "bfloat16", 20, 32),
        (64, None, "bfloat16", 1, 16),
    ],
)
def test_tiles_are_powers_of_two_that_stay_on_chip(width, score, dtype, length, tile):
    def some(*shape):
        return jax.ShapeDtypeStruct(shape, dtype)

    made = AttentionTerms(some(1, length, 4, width), some(1, 99, 2, width), some())
    if score is not None:
        made = made._replace(context_query=some(1, length, 4, score))
    layout = lay_out(Visible(), made, True)
    assert layout.rows == tile
    assert layout.strip % layout.rows == 0
