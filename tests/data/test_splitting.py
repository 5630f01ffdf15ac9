import pytest

from cem_jax.data.splitting import cut, split
from cem_jax.data.text import to_bytes


@pytest.mark.parametrize(
    "documents",
    [
        ["word " * 2000],
        ["a line\n" * 700 + "no end", "another\r\ndocument\r\n" * 50],
        ["x" * 3000],
        ["x" * 40],
        # Above 64 kB in bytes, and not in characters; with bytes that are not UTF-8.
        ["漢" * 1_300_000],
        [("é " + "\udcff" * 30) * 30_000 + "\n"],
        ["short", "word " * 900_000],
    ],
    ids=lambda documents: f"{len(documents)} {documents[0][:6]!a}",
)
def test_pieces_are_enough_and_light_and_lose_nothing(documents):
    pieces = split(documents)
    assert len(pieces) >= 40
    assert max(len(to_bytes(piece)) for piece in pieces) <= 64_000
    assert all(pieces)
    assert "".join(pieces) == "".join(documents)


def test_no_piece_is_of_two_documents():
    for piece in split(["a" * 70, "b" * 90]):
        assert len(set(piece)) == 1


def test_fewer_characters_than_pieces_are_a_piece_each():
    assert split(["é\udc80c"]) == ["é", "\udc80", "c"]
    assert split(["ab", "", "c"]) == ["a", "b", "c"]


def test_cuts_are_at_line_ends_else_at_spaces_else_anywhere():
    assert list(cut("ab c\nd ef\ngh", 8)) == ["ab c\n", "d ef\ngh"]
    assert list(cut("ab cd ef", 5)) == ["ab cd", " ef"]
    assert list(cut("ab cdef gh", 6)) == ["ab", " cdef", " gh"]
    assert list(cut("abcdefgh", 3)) == ["abc", "def", "gh"]
    assert list(cut(" abc", 2)) == [" a", "bc"]
    assert list(cut("\n\n\n", 2)) == ["\n\n", "\n"]
    assert list(cut("", 3)) == []


@pytest.mark.parametrize(("lines", "size"), [(10_000, 5_250), (200_000, 64_000)])
def test_pieces_of_many_short_lines_are_near_the_size_they_may_have(lines, size):
    sizes = [len(piece) for piece in split(["a line of some words\n" * lines])]
    assert 0.99 * size < min(sizes[:-1]) <= max(sizes) <= size
