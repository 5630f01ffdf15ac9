import numpy as np
import pytest

from cem_jax.data import PackedRows, pack
from cem_jax.data.prepared import packers
from cem_jax.data.prepared.packers import best_fit, make_packer

PACKINGS = ("concat-split", "best-fit")


def texts(seed=0, count=40, longest=30):
    """Documents whose pieces are all different, BOS and EOS included."""
    sizes = np.random.default_rng(seed).integers(2, longest, count)
    ends = np.cumsum(sizes)
    return [
        np.arange(end - size, end, dtype=np.int32) for end, size in zip(ends, sizes, strict=True)
    ]


def packed(packing, documents, length):
    packer = make_packer(packing, length)
    found = [rows for document in documents for rows in packer.add(document)]
    found += packer.finish()
    fields = ("tokens", "segment", "position")
    return PackedRows(*(np.concatenate([getattr(rows, f) for rows in found]) for f in fields))


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("length", [1, 2, 7, 16, 64])
@pytest.mark.parametrize("window", [1, 50, 1 << 22])
def test_every_piece_after_a_bos_is_a_target_exactly_once(monkeypatch, packing, length, window):
    monkeypatch.setattr(packers, "WINDOW", window)
    documents = texts()
    rows = packed(packing, documents, length)
    batch = rows.batch(slice(None))
    met = batch.targets[batch.mask]
    expected = np.concatenate([document[1:] for document in documents])
    np.testing.assert_array_equal(np.sort(met), expected)
    # The pieces count on within a document: each is predicted from the one before it.
    np.testing.assert_array_equal(batch.inputs[batch.mask], met - 1)


@pytest.mark.parametrize("packing", PACKINGS)
def test_no_segment_has_two_documents_and_positions_begin_anew(monkeypatch, packing):
    monkeypatch.setattr(packers, "WINDOW", 100)
    documents = texts()
    owner = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
    rows = packed(packing, documents, 16)
    for tokens, segments, places in zip(rows.tokens, rows.segment, rows.position, strict=True):
        for label in range(1, segments.max() + 1):
            chosen = segments == label
            assert len(set(owner[tokens[chosen]])) == 1
            np.testing.assert_array_equal(places[chosen], np.arange(chosen.sum()))


@pytest.mark.parametrize("window", [1, 30, 1 << 22])
@pytest.mark.parametrize("length", [1, 5, 16])
def test_end_to_end_is_what_pack_does(monkeypatch, window, length):
    monkeypatch.setattr(packers, "WINDOW", window)
    rows, expected = packed("concat-split", texts(), length), pack(texts(), length)
    for name in ("tokens", "segment", "position"):
        np.testing.assert_array_equal(getattr(rows, name), getattr(expected, name))


def test_best_fit_by_hand():
    # 6 and 3 fill rows with 4 and 5; the 2 goes where least room is left.
    assert best_fit([3, 6, 2, 4, 5], 10) == [[1, 3], [4, 0, 2]]
    assert best_fit([8, 7, 2, 2], 10) == [[0, 2], [1, 3]]
    assert best_fit([10, 10], 10) == [[0], [1]]


def test_best_fit_cuts_only_what_is_too_long_and_leaves_little_empty():
    documents = texts(count=400)
    rows = packed("best-fit", documents, 31)
    found = {
        tuple(tokens[segments == label].tolist())
        for tokens, segments in zip(rows.tokens, rows.segment, strict=True)
        for label in range(1, segments.max() + 1)
    }
    assert found == {tuple(document.tolist()) for document in documents}
    wider = packed("best-fit", documents, 127)
    assert (wider.segment > 0).mean() > 0.99
    longest = packed("best-fit", [np.arange(70, dtype=np.int32)], 31)
    assert (longest.segment > 0).sum() == 72
