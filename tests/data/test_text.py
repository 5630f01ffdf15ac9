import json

import pytest

from cem_jax.data import printable, to_bytes
from cem_jax.data.text import bytes_for_surrogates, from_bytes


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(range(256)),
        b"\xef\xbb\xbfmark\r\nand\rline\n",
        "é 漢字 😀".encode(),
        "😀".encode()[:3] + b" cut",
        b"\xed\xa0\x80 a surrogate's own bytes \xc0\x80",
    ],
)
def test_every_byte_comes_back(data):
    assert to_bytes(from_bytes(data)) == data


def test_a_surrogate_that_is_no_byte_is_refused():
    for text in ("ab\ud800", "ab\udc7f", "ab\udd00"):
        with pytest.raises(ValueError, match=r"got the surrogate U\+D\w+ at 2, expected"):
            to_bytes(text)


def test_printable_text_is_utf8():
    assert printable("plain") == "plain"
    assert printable("é\udcff\udc80 \ud800") == "é\ufffd\ufffd \ufffd"
    printable(from_bytes(bytes(range(256)))).encode()


def test_surrogates_of_json_become_bytes_that_are_kept():
    written = json.dumps(from_bytes(b"\xe9t\xe9"))
    assert to_bytes(bytes_for_surrogates(json.loads(written))) == b"\xe9t\xe9"
    assert to_bytes(bytes_for_surrogates("a\ud800b")) == b"a\xed\xa0\x80b"
    assert bytes_for_surrogates("é 😀") == "é 😀"
