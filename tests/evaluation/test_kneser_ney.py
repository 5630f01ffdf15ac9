import math
from collections import defaultdict

import numpy as np
import pytest

from cem_jax.evaluation.kneser_ney import kneser_ney, kneser_ney_token_nats

BOS, EOS, V = 1, 2, 9


def random_documents(seed, sizes):
    draw = np.random.default_rng(seed)
    # Skewed, so that n-grams repeat; the last id never occurs.
    pieces = [np.minimum(draw.geometric(0.4, size) + 2, V - 2).tolist() for size in sizes]
    return [[BOS, *middle, EOS] for middle in pieces]


TRAIN = random_documents(0, (40, 3, 0, 25, 1))
HELD_OUT = [*random_documents(1, (30, 0, 7)), [BOS, 8, 8, 3, 0, BOS, EOS, 3, EOS]]


class Oracle:
    """Dictionaries of padded tuples, one n-gram at a time, from the textbook's recursion."""

    def __init__(self, documents, order, discount):
        self.order, self.discount = order, discount
        seen = self.grams(documents, order)
        self.counts = {order: defaultdict(int)}
        for gram in seen:
            self.counts[order][gram] += 1
        for n in range(order - 1, 0, -1):
            self.counts[n] = defaultdict(int)
            for gram in {gram[order - n - 1 :] for gram in seen}:
                self.counts[n][gram[1:]] += 1

    @staticmethod
    def grams(documents, order):
        found = []
        for document in documents:
            padded = [document[0]] * (order - 1) + list(document)
            ends = range(order, len(padded))
            found += [tuple(padded[end - order + 1 : end + 1]) for end in ends]
        return found

    def probability(self, gram):
        if not gram:
            return 1 / V
        lower = self.probability(gram[1:])
        counts = self.counts[len(gram)]
        after = [count for other, count in counts.items() if other[:-1] == gram[:-1]]
        if not after:
            return lower
        kept = max(counts.get(gram, 0) - self.discount, 0.0)
        return (kept + self.discount * len(after) * lower) / sum(after)

    def nats(self, documents):
        grams = self.grams(documents, self.order)
        return [-math.log(self.probability(gram)) for gram in grams]


@pytest.mark.parametrize("discount", [0.75, 0.3])
def test_the_models_are_those_of_a_plain_implementation(discount):
    found = kneser_ney_token_nats(TRAIN, HELD_OUT, vocab_size=V, discount=discount)
    assert list(found) == [1, 2, 3]
    for order, nats in found.items():
        expected = Oracle(TRAIN, order, discount).nats(HELD_OUT)
        np.testing.assert_allclose(nats, expected, rtol=0, atol=1e-10)


def test_a_tiny_example_has_the_probabilities_computed_by_hand():
    # Twice (BOS, 3, EOS) and once (BOS, 3, 3, EOS), of V = 4 ids, with D = 1/2.
    train = [[0, 3, 1], [0, 3, 3, 1], [0, 3, 1]]
    nats = kneser_ney_token_nats(train, [[0, 3, 1]], vocab_size=4, discount=0.5)
    # Occurrences: four of 3, three of 1.
    unigram = [(3.5 + 0.5 * 2 / 4) / 7, (2.5 + 0.5 * 2 / 4) / 7]
    # 3 follows BOS and 3; 1 follows only 3.
    below = [(1.5 + 0.5 * 2 / 4) / 3, (0.5 + 0.5 * 2 / 4) / 3]
    # After BOS three times 3; after 3 three times 1 and once 3.
    bigram = [(2.5 + 0.5 * below[0]) / 3, (2.5 + 0.5 * 2 * below[1]) / 4]
    # (BOS, 3) follows BOS; (3, 1) follows BOS and 3, (3, 3) follows BOS.
    middle = [(0.5 + 0.5 * below[0]) / 1, (1.5 + 0.5 * 2 * below[1]) / 3]
    # After (BOS, BOS) three times 3; after (BOS, 3) twice 1 and once 3.
    trigram = [(2.5 + 0.5 * middle[0]) / 3, (1.5 + 0.5 * 2 * middle[1]) / 3]
    np.testing.assert_allclose(np.exp(-nats[1]), unigram, rtol=1e-12)
    np.testing.assert_allclose(np.exp(-nats[2]), bigram, rtol=1e-12)
    np.testing.assert_allclose(np.exp(-nats[3]), trigram, rtol=1e-12)


@pytest.mark.parametrize("history", [[], [3], [3, 4], [4, 8], [8, 3], [8, 8]])
def test_probabilities_sum_to_one_after_seen_and_unseen_histories(history):
    documents = [[BOS, *history, piece] for piece in range(V)]
    nats = kneser_ney_token_nats(TRAIN, documents, vocab_size=V)
    for each in nats.values():
        last = each.reshape(V, -1)[:, -1]
        assert np.isfinite(last).all()
        np.testing.assert_allclose(np.exp(-last).sum(), 1.0, rtol=0, atol=1e-12)


def test_documents_do_not_see_each_other():
    together = kneser_ney_token_nats(TRAIN, HELD_OUT, vocab_size=V)
    alone = [kneser_ney_token_nats(TRAIN, [text], vocab_size=V) for text in HELD_OUT]
    reordered = kneser_ney_token_nats(TRAIN[::-1], HELD_OUT, vocab_size=V)
    for order in (1, 2, 3):
        joined = np.concatenate([each[order] for each in alone])
        np.testing.assert_array_equal(together[order], joined)
        np.testing.assert_array_equal(together[order], reordered[order])


def test_sums_and_figures_are_those_of_the_tokens():
    tokens = kneser_ney_token_nats(TRAIN, HELD_OUT, vocab_size=V)
    # Iterators, which can be read only once, and arrays will do.
    train, held_out = (map(np.array, texts) for texts in (TRAIN, HELD_OUT))
    figures = kneser_ney(train, held_out, vocab_size=V, utf8_bytes=100)
    for order in (1, 2, 3):
        nats = figures[order].nats
        assert nats == tokens[order].sum()
        assert figures[order].tokens == sum(len(text) - 1 for text in HELD_OUT)
        assert figures[order].bits_per_byte == nats / math.log(2) / 100


def test_trigrams_of_a_large_vocabulary_do_not_overflow():
    # The largest V, and its largest ids: the trigram of three BOS would be V^3 - 1.
    v = 2**21 - 1
    low = [[8, *text[1:]] for text in random_documents(0, (9, 5))]
    high = [[piece + v - 9 for piece in text] for text in low]
    first, second = (kneser_ney_token_nats(t, t[:1], vocab_size=v) for t in (high, low))
    for order in (1, 2, 3):
        np.testing.assert_allclose(first[order], second[order], rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": []}, "train: got none, expected documents of at least BOS and EOS"),
        ({"held_out": [[BOS]]}, "held_out: got one of 1 ids, expected .* BOS and EOS"),
        ({"held_out": [[BOS, V]]}, "held_out: got .* from 1 to 9, expected .* from 0 to 8"),
        ({"train": [[BOS, -1, EOS]]}, "train: got .* from -1 to 2, expected .* from 0 to 8"),
        ({"train": [[1.0, 2.0]]}, "train: got 1-dimensional float64 .*, expected integer ids"),
        ({"train": [np.ones((2, 2), int)]}, "train: got 2-dimensional .* in one dimension"),
        ({"train": [[BOS, 3], [4, 3]]}, r"begin with the ids \[1, 4\], expected the same BOS"),
        ({"discount": 0.0}, "discount: got 0.0, expected more than 0 and less than 1"),
        ({"discount": 1.0}, "discount: got 1.0, expected more than 0 and less than 1"),
        ({"vocab_size": 0}, "vocab_size: got 0, expected 1 to 2097151"),
        ({"vocab_size": 2**21}, "vocab_size: got 2097152, expected 1 to 2097151"),
    ],
)
@pytest.mark.usefixtures("hook_off")
def test_impossible_input_is_refused(change, message):
    arguments = {"train": TRAIN, "held_out": HELD_OUT, "vocab_size": V, "discount": 0.75}
    with pytest.raises(ValueError, match=message):
        kneser_ney_token_nats(**(arguments | change))
