import io
from types import SimpleNamespace

import numpy as np
import pytest

from cem_jax.data import SentencePieceTokenizer, to_bytes, train_tokenizer
from cem_jax.data import sentencepiece_tokenizer as module
from cem_jax.data.text import from_bytes

TEXT = ["the cat sat on the mat\nand the dog sat on the log in 1790\n", "a hat, a bat"]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXT, 320)


def model(**options):
    """A model of sentencepiece's own defaults, and what is asked for."""
    import sentencepiece

    file = io.BytesIO()
    lines = iter([line for text in TEXT for line in text.split("\n")])
    common = {"model_type": "bpe", "minloglevel": 2, "model_writer": file}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=lines, **common, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "the cat",
        "  two leading, three trailing   ",
        "\n\n a\r\nb\t",
        "é e\u0301 😀 \u00a0 nul\0 \ufeff",
        "<s> </s> <unk> <0x41>",
        "sentencepiece's own ▁ and ▁▁ and \u2585",
        "private \ue000 \ue0000 \ue0001 ▁\ue000",
        "bytes \udc80\udcff, \udce9t\udce9",
        from_bytes(bytes(range(256)) * 2),
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


def test_a_text_of_many_parts_is_encoded_as_the_whole(tokenizer, monkeypatch):
    text = "the cat sat\non the mat and  the\n\n dog sat on the log\t▁\udcff\n" * 20
    whole = tokenizer.encode(text)
    assert whole == tokenizer._processor.encode(module.escape(text))
    given = []

    def encode(parts):
        given.extend([parts] if isinstance(parts, str) else parts)
        return processor.encode(parts)

    processor = tokenizer._processor
    monkeypatch.setattr(tokenizer, "_processor", SimpleNamespace(encode=encode))
    # Above most lines, so that parts end at line ends; below the words, where they end anywhere.
    for most in (100, 23, 15):
        monkeypatch.setattr(module, "LONGEST", most)
        assert tokenizer.encode(text) == whole
    # A line end in front, and two characters for each that is escaped.
    assert max(map(len, given)) <= 100 + 1 + 2 * 2
    for most in (4, 1):
        monkeypatch.setattr(module, "LONGEST", most)
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_model_that_joins_line_ends_encodes_the_whole(monkeypatch):
    options = {"byte_fallback": True, "normalization_rule_name": "identity"}
    options |= {"remove_extra_whitespaces": False, "user_defined_symbols": ["\nthe"]}
    tokenizer = SentencePieceTokenizer(model(vocab_size=315, **options))
    text = "a cat\nthe cat\nthe mat\n"
    whole = tokenizer.encode(text)
    monkeypatch.setattr(module, "LONGEST", 6)
    assert tokenizer.encode(text) == whole
    assert tokenizer.decode(tokenizer.encode(text * 5)) == text * 5


def test_pieces_have_the_text_that_sentencepiece_gives_them(tokenizer):
    processor = tokenizer._processor
    pieces = [piece for piece in range(tokenizer.vocab_size) if not processor.is_byte(piece)]
    draws = np.random.default_rng(0)
    for length in [*range(5)] * 100:
        drawn = draws.choice(pieces, length).tolist()
        assert tokenizer.decode(drawn) == processor.decode(drawn)


def test_any_pieces_have_a_text(tokenizer):
    draws = np.random.default_rng(0).integers(0, tokenizer.vocab_size, (200, 30))
    for drawn in draws.tolist():
        text = tokenizer.decode(drawn)
        assert tokenizer.decode(tokenizer.encode(text)) == text
    byte = [piece for piece in range(tokenizer.vocab_size) if tokenizer._processor.is_byte(piece)]
    assert to_bytes(tokenizer.decode([tokenizer.bos, *byte])) == bytes(range(256))


@pytest.mark.parametrize("piece", [-1, 320, 70_000])
def test_other_pieces_are_refused(tokenizer, piece):
    with pytest.raises(ValueError, match=f"pieces: got {piece}, expected 0 to 319"):
        tokenizer.decode([5, piece])


def test_a_model_as_llama_has_it_is_taken(tokenizer):
    options = {"byte_fallback": True, "normalization_rule_name": "identity"}
    other = SentencePieceTokenizer(model(vocab_size=310, remove_extra_whitespaces=False, **options))
    text = " the  cat\n\n▁\udcff\r\n"
    assert other.decode(other.document(text)) == text
    assert other.content_hash() != tokenizer.content_hash()


def test_a_model_without_the_space_in_front_is_taken():
    options = {"byte_fallback": True, "normalization_rule_name": "identity"}
    options |= {"remove_extra_whitespaces": False, "add_dummy_prefix": False}
    tokenizer = SentencePieceTokenizer(model(vocab_size=310, **options))
    for text in ("the cat", " the  cat", ""):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocab_size": 60}, r"0 pieces for single bytes, expected 256 \(byte_fallback\)"),
        ({"vocab_size": 310, "byte_fallback": True}, r"makes 'A b.* expected the same text"),
        (
            {"vocab_size": 310, "byte_fallback": True, "normalization_rule_name": "identity"},
            "remove_extra_whitespaces=false",
        ),
        (
            {"vocab_size": 310, "byte_fallback": True, "bos_id": -1},
            "got the ids -1 for BOS and 2 for EOS, expected a model that has both",
        ),
    ],
)
def test_models_that_could_lose_text_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SentencePieceTokenizer(model(**options))


@pytest.mark.parametrize("data", [b"", b"text, and no model\n" * 9, bytes(range(256))])
def test_what_is_no_model_is_refused(data, capfd):
    with pytest.raises(ValueError, match=f"got {len(data)} bytes that are no sentencepiece model"):
        SentencePieceTokenizer(data)
    assert capfd.readouterr() == ("", "")
