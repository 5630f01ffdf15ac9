import pytest

from cem_jax.data.escaping import escape, unescape

LOST = ["\u2581", *map(chr, range(0xDC80, 0xDD00))]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "▁▁ é",
        "\ue000 \ue0000 \ue0001 \ue000\ue000",
        "\ue000\ue0e9 and \ue0e9\ue000\udce9",
        "".join(LOST),
        "\ue0001\udc80\ue0ff0",
    ],
)
def test_what_is_escaped_is_gone_and_comes_back(text):
    assert not set(LOST) & set(escape(text))
    assert unescape(escape(text)) == text


def test_a_byte_is_two_characters_of_private_use():
    assert escape("caf\udce9") == "caf\ue000\ue0e9"
    assert escape("\udc80\udcff") == "\ue000\ue080\ue000\ue0ff"


def test_signs_that_escape_nothing_stay():
    for text in ("\ue000", "\ue0002", "a\ue000 b", "\ue000\ue07f", "\ue000\ue100"):
        assert unescape(text) == text
