import pytest

from cem_jax.data import tokenizer_training as module
from cem_jax.data import train_tokenizer

TEXT = ["the cat sat on the mat\nand the dog sat on the log in 1790\n", "a hat, a bat"]


def test_training_repeats():
    first, again, other = (train_tokenizer(TEXT, vocabulary) for vocabulary in (320, 320, 321))
    assert first.content_hash() == again.content_hash() != other.content_hash()
    assert (first.vocab_size, other.vocab_size) == (320, 321)


def test_training_is_silent(capfd):
    train_tokenizer(TEXT, 320)
    assert capfd.readouterr() == ("", "")


def test_a_line_of_any_length_is_learned_from():
    # sentencepiece drops lines of more than 4,192 bytes unless told otherwise.
    tokenizer = train_tokenizer([*TEXT, "zyzzyva " * 1000], 320)
    assert len(tokenizer.encode("zyzzyva")) < len("zyzzyva")


def test_long_lines_are_cut_and_teach_the_same(monkeypatch):
    text = "the cat sat on the mat and the dog sat on the log in 1790, and a hat " * 50
    whole = train_tokenizer([text], 320)
    monkeypatch.setattr(module, "LONGEST", 100)
    assert max(map(len, module._lines([text, "x" * 950]))) == 100
    assert train_tokenizer([text], 320).model == whole.model


def test_lines_with_the_reserved_sign_are_learned_from():
    tokenizer = train_tokenizer([*TEXT, "zyzzyva \u2585\n" * 50], 320)
    assert len(tokenizer.encode("zyzzyva")) < len("zyzzyva")


def test_a_byte_that_is_not_utf8_can_be_one_piece():
    tokenizer = train_tokenizer([*TEXT, "caf\udce9 caf\udce9 na\udceff\n" * 50], 330)
    assert len(tokenizer.encode("caf\udce9")) <= 2


def test_impossible_vocabularies_are_refused():
    with pytest.raises(ValueError, match="got 319, expected at least 320"):
        train_tokenizer(TEXT, 319)
    with pytest.raises(ValueError, match="got 1000001, expected at most 1000000"):
        train_tokenizer(TEXT, 1_000_001)


def number(message, vocabulary, text):
    """The one that the refusal of a vocabulary names."""
    with pytest.raises(ValueError, match=message) as refusal:
        train_tokenizer(text, vocabulary)
    return int(str(refusal.value).split("expected at ")[1].split(",")[0].split()[1])


def test_too_many_pieces_are_answered_with_the_most_that_there_can_be():
    most = number("got 5000, expected at most [0-9]+, all the pieces", 5000, TEXT)
    assert train_tokenizer(TEXT, most).vocab_size == most
    assert number("expected at most", most + 1, TEXT) == most


def test_too_few_pieces_are_answered_with_the_fewest_that_there_can_be():
    text = ["".join(map(chr, range(0x4E00, 0x4E80))) * 3]
    fewest = number("got 350, expected at least [0-9]+, which hold the 256", 350, text)
    assert train_tokenizer(text, fewest).vocab_size == fewest
    assert number("expected at least", fewest - 1, text) == fewest


def test_too_little_text_for_any_vocabulary_is_refused():
    with pytest.raises(
        ValueError, match="got 320, expected text that can fill at least 320 pieces"
    ):
        train_tokenizer(["ab"], 320)
    with pytest.raises(ValueError, match="got 320, expected text that can fill as many pieces"):
        train_tokenizer(["\n\n"], 320)
