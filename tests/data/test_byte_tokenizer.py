import numpy as np
import pytest

from cem_jax.data import ByteTokenizer
from cem_jax.data.text import from_bytes

tokenizer = ByteTokenizer()


def test_pieces_are_the_bytes():
    assert tokenizer.encode("aé\udcff") == [0x61, 0xC3, 0xA9, 0xFF]
    assert tokenizer.document("a") == [tokenizer.bos, 0x61, tokenizer.eos]
    assert sorted({*range(256), tokenizer.bos, tokenizer.eos}) == list(range(tokenizer.vocab_size))


def test_any_bytes_come_back():
    for data in (b"", bytes(range(256)), "é😀".encode(), b"\xc3", b"\xef\xbb\xbf\r\n"):
        text = from_bytes(data)
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert tokenizer.decode(tokenizer.document(text)) == text


def test_any_pieces_have_a_text():
    pieces = np.random.default_rng(0).integers(0, 258, 1000).tolist()
    text = tokenizer.decode(pieces)
    assert tokenizer.encode(text) == [piece for piece in pieces if piece < 256]


def test_pieces_may_be_of_numpy(hook_off):
    assert tokenizer.decode(np.array([0x61, 257, 0xFF], np.int32)) == "a\udcff"


@pytest.mark.parametrize("piece", [-1, 258, 70_000])
def test_other_pieces_are_refused(piece):
    with pytest.raises(ValueError, match=f"pieces: got {piece}, expected 0 to 257"):
        tokenizer.decode([0, piece])


def test_broken_descriptions_are_refused():
    with pytest.raises(ValueError, match=r"got b'\{\}', expected"):
        ByteTokenizer.load(b"{}")
