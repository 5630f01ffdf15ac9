from itertools import pairwise

import numpy as np
import pytest

from cem_jax.data import Pipeline, pack
from cem_jax.data.prepared import PreparedRows, shard_reader
from cem_jax.data.prepared.shard_reader import ShardFile, ShardReader
from cem_jax.data.prepared.shards import RowFormat, ShardWriter

LENGTH = 6


def documents():
    rng = np.random.default_rng(0)
    return [[1, *rng.integers(3, 60, rng.integers(0, 12)).tolist(), 2] for _ in range(40)]


packed = pack(documents(), LENGTH)


@pytest.fixture
def rows(tmp_path):
    """The same rows in three shards."""
    form, bounds = RowFormat.of(LENGTH, 60), [0, 5, 6, len(packed)]
    written = []
    for number, (start, end) in enumerate(pairwise(bounds)):
        writer = ShardWriter(tmp_path / f"{number}", "train", form)
        writer.write(packed.select(slice(start, end)))
        written.append(ShardFile(tmp_path / f"{number}", writer.close()))
    reader = ShardReader(written, form)
    return PreparedRows(reader, range(len(reader)))


def same(left, right):
    for a, b in zip(left[:3] + tuple(left.sites), right[:3] + tuple(right.sites), strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.asarray(a).dtype == np.asarray(b).dtype


@pytest.mark.parametrize("open_at_once", [1, 2, 256])
def test_rows_on_disk_are_the_rows_in_memory(rows, monkeypatch, open_at_once):
    monkeypatch.setattr(shard_reader, "OPEN", open_at_once)
    assert (len(rows), rows.length, rows.predicted) == (len(packed), LENGTH, packed.predicted)
    for chosen in (slice(None), slice(3, 9), slice(None, None, 3), [7, 0, 7, 5], np.array([4])):
        same(rows.batch(chosen), packed.batch(chosen))
    assert len(rows.reader._open) <= open_at_once


def test_selected_and_padded_rows(rows, monkeypatch):
    monkeypatch.setattr("cem_jax.data.prepared.rows.COUNTED", 2)
    for chosen in (slice(2, 11), slice(None, None, 4), slice(0, 0)):
        mine, expected = rows.select(chosen), packed.select(chosen)
        assert (len(mine), mine.predicted) == (len(expected), expected.predicted)
        same(mine.padded(4).batch(slice(None)), expected.padded(4).batch(slice(None)))
        assert len(mine.padded(4)) % 4 == 0
        assert mine.padded(4).predicted == mine.predicted


def test_a_step_sees_the_same_rows_as_in_memory(rows):
    mine, expected = (Pipeline(each, batch=4, seed=3) for each in (rows, packed))
    for step in (17, 0, 5):
        same(mine.batch(step), expected.batch(step))


def test_rows_that_are_not_there_are_refused(rows):
    for numbers in ([len(packed)], [-1]):
        with pytest.raises(IndexError, match=f"expected 0 to {len(packed) - 1}"):
            rows.batch(numbers)


@pytest.mark.parametrize(("vocab_size", "dtype"), [(1 << 16, "<u2"), ((1 << 16) + 1, "<u4")])
def test_every_piece_of_the_vocabulary_is_kept(vocab_size, dtype):
    form = RowFormat.of(2, vocab_size)
    assert form.dtype == dtype
    rows = pack([[0, vocab_size - 1]], 2)
    same(form.decode(form.encode(rows)).batch(slice(None)), rows.batch(slice(None)))
    assert RowFormat.of(1 << 16, 300).dtype == "<u4"


def test_a_shard_is_not_there_before_it_is_whole(tmp_path):
    writer = ShardWriter(tmp_path / "a", "train", RowFormat.of(LENGTH, 60))
    writer.write(packed)
    assert not (tmp_path / "a").exists()
    shard = writer.close()
    assert (tmp_path / "a").stat().st_size == shard.size
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
