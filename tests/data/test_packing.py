import numpy as np
import pytest

from cem_jax.data import pack

BOS, EOS = 1, 2


def documents(seed=0, count=7, longest=9):
    rng = np.random.default_rng(seed)
    return [
        [BOS, *rng.integers(3, 60, rng.integers(0, longest)).tolist(), EOS] for _ in range(count)
    ]


def test_two_documents_by_hand():
    rows = pack([[1, 5, 6, 2], [1, 7, 2]], 4)
    np.testing.assert_array_equal(rows.tokens, [[1, 5, 6, 2, 1], [1, 7, 2, 0, 0]])
    np.testing.assert_array_equal(rows.segment, [[1, 1, 1, 1, 2], [1, 1, 1, 0, 0]])
    np.testing.assert_array_equal(rows.position, [[0, 1, 2, 3, 0], [0, 1, 2, 0, 0]])
    batch = rows.batch(slice(None))
    np.testing.assert_array_equal(batch.inputs, [[1, 5, 6, 2], [1, 7, 2, 0]])
    np.testing.assert_array_equal(batch.targets, [[5, 6, 2, 1], [7, 2, 0, 0]])
    np.testing.assert_array_equal(
        batch.mask, [[True, True, True, False], [True, True] + [False] * 2]
    )
    np.testing.assert_array_equal(batch.sites.segment, [[1, 1, 1, 1], [1, 1, 1, 0]])
    np.testing.assert_array_equal(batch.sites.position, [[0, 1, 2, 3], [0, 1, 2, 0]])


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 64])
def test_every_piece_after_a_bos_is_a_target_exactly_once_and_in_order(length):
    texts = documents()
    rows = pack(texts, length)
    batch = rows.batch(slice(None))
    expected = [piece for text in texts for piece in text[1:]]
    np.testing.assert_array_equal(batch.targets[batch.mask], expected)
    assert rows.predicted == len(expected)


@pytest.mark.parametrize("length", [2, 5, 8])
def test_no_label_crosses_a_document(length):
    # The pieces say which document they belong to.
    texts = [[number] * size for number, size in ((3, 4), (4, 1), (5, 9), (6, 2))]
    batch = pack(texts, length).batch(slice(None))
    np.testing.assert_array_equal(batch.inputs[batch.mask], batch.targets[batch.mask])
    # A document has one segment in a row, and a segment one document.
    for tokens, segments in zip(batch.inputs, batch.sites.segment, strict=True):
        pairs = {(a, b) for a, b in zip(tokens, segments, strict=True) if b}
        assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def test_rows_overlap_by_one_and_the_last_is_padded():
    rows = pack(documents(), 5)
    assert rows.length == 5
    np.testing.assert_array_equal(rows.tokens[:-2, -1], rows.tokens[1:-1, 0])
    assert (rows.segment[:-1] > 0).all()
    assert (rows.segment[-1] == 0).any()


def test_padded_rows_predict_nothing():
    rows = pack(documents(), 5)
    padded = rows.padded(4)
    assert len(padded) % 4 == 0
    assert padded.predicted == rows.predicted
    assert not padded.segment[len(rows) :].any()


def test_nothing_to_predict_and_impossible_lengths_are_refused():
    with pytest.raises(ValueError, match="got 1 pieces in all, expected at least 2"):
        pack([[1]], 4)
    with pytest.raises(ValueError, match="got 0 pieces in all"):
        pack([], 4)
    with pytest.raises(ValueError, match="length: got 0, expected at least 1"):
        pack([[1, 2]], 0)
