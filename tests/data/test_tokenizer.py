import pytest

from cem_jax.data import Tokenizer, train_tokenizer

TEXT = ["the cat sat on the mat\nand the dog sat on the log in 1790\n", "a hat, a bat"]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXT, 320)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "the cat",
        "  two leading, three trailing   ",
        "\n\n a\r\nb\t",
        "é e\u0301 😀 \u00a0 nul\0",
        "<s> </s> <unk> <0x41>",
        "sentencepiece's own ▁ and ▁▁",
        "private \ue000 \ue0000 \ue0001 ▁\ue000",
    ],
)
def test_nothing_is_lost(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_document_starts_with_bos_and_ends_with_eos(tokenizer):
    pieces = tokenizer.document("the cat")
    assert (pieces[0], pieces[-1]) == (tokenizer.bos, tokenizer.eos)
    assert pieces[1:-1] == tokenizer.encode("the cat")
    assert tokenizer.decode(pieces) == "the cat"
    assert tokenizer.bos != tokenizer.eos


def test_text_never_encodes_to_bos_or_eos(tokenizer):
    assert not {tokenizer.bos, tokenizer.eos} & set(tokenizer.encode("<s>the</s>"))


def test_training_repeats_and_a_saved_tokenizer_is_the_same(tokenizer, tmp_path):
    again = train_tokenizer(TEXT, 320)
    tokenizer.save(tmp_path / "tokenizer")
    loaded = Tokenizer.load(tmp_path / "tokenizer")
    assert tokenizer.content_hash() == again.content_hash() == loaded.content_hash()
    assert tokenizer.content_hash() != train_tokenizer(TEXT, 321).content_hash()
    assert loaded.vocab_size == tokenizer.vocab_size == 320
    assert loaded.encode("the cat") == tokenizer.encode("the cat")


def test_a_line_of_any_length_is_learned_from():
    # sentencepiece drops lines of more than 4,192 bytes unless told otherwise.
    tokenizer = train_tokenizer([*TEXT, "zyzzyva " * 1000], 320)
    assert len(tokenizer.encode("zyzzyva")) < len("zyzzyva")


def test_training_is_silent(capfd):
    train_tokenizer(TEXT, 320)
    assert capfd.readouterr() == ("", "")


def test_impossible_vocabularies_are_refused():
    with pytest.raises(ValueError, match="got 319, expected at least 320"):
        train_tokenizer(TEXT, 319)
    with pytest.raises(ValueError, match="got 5000, expected a number of pieces that this text"):
        train_tokenizer(TEXT, 5000)


def test_a_missing_tokenizer_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"tokenizer\.model"):
        Tokenizer.load(tmp_path)
