import gzip
import json
import sys
import tracemalloc

import pytest

from cem_jax.data.json_lines import Document
from cem_jax.data.prepared.documents import Broken, documents
from cem_jax.data.prepared.inputs import Input


def read(path, advanced=lambda count: None):
    return list(documents(path.parent, Input(path.name, path.stat().st_size, None), advanced))


def written(path, data):
    path.write_bytes(data)
    return path


def jsonl(*texts):
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


@pytest.mark.parametrize("block", [1, 7, 1 << 17])
def test_lines_do_not_depend_on_blocks(tmp_path, monkeypatch, block):
    monkeypatch.setattr("cem_jax.data.reading.BLOCK", block)
    data = b"\xef\xbb\xbf" + jsonl("a\u2028b", "é") + b"\r\n \n" + jsonl("last")[:-1]
    told = []
    found = read(written(tmp_path / "a.jsonl", data), told.append)
    assert found == [Document("a\u2028b"), Document("é"), Document("last")]
    assert sum(told) == len(data)


def test_the_domain_is_that_of_the_meta(tmp_path):
    lines = [
        {"text": "a", "meta": {"redpajama_set_name": "RedPajamaBook"}},
        {"text": "b", "meta": {"other": 1}},
        {"text": "c", "meta": "RedPajamaBook"},
    ]
    data = "".join(json.dumps(each) + "\n" for each in lines).encode()
    found = read(written(tmp_path / "a.jsonl", data))
    assert [each.domain for each in found] == ["RedPajamaBook", "none", "none"]


def test_broken_lines_name_themselves_and_the_rest_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("cem_jax.data.prepared.documents.LONGEST", 100)
    data = jsonl("a") + b"{\n" + jsonl("b" * 200) + b'{"content": "c"}\n' + jsonl("d")
    for block in (3, 1 << 17):
        monkeypatch.setattr("cem_jax.data.reading.BLOCK", block)
        found = read(written(tmp_path / "a.jsonl", data))
        assert [each.text for each in found if isinstance(each, Document)] == ["a", "d"]
        broken = [each for each in found if isinstance(each, Broken)]
        assert [(each.file, each.line) for each in broken] == [("a.jsonl", n) for n in (2, 3, 4)]
        assert broken[0].why.startswith("data: got line 2 of a.jsonl, which is not JSON")
        assert "line 3 of a.jsonl, which is longer than 100 bytes" in broken[1].why
        assert 'line 4 of a.jsonl with an object with "content"' in broken[2].why


def test_a_broken_file_names_itself_after_what_can_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr("cem_jax.data.reading.BLOCK", 16)
    whole = gzip.compress(jsonl(*(f"text {n}" for n in range(100))))
    found = read(written(tmp_path / "a.jsonl.gz", whole[:-20]))
    assert found[0] == Document("text 0")
    assert isinstance(found[-1], Broken)
    assert found[-1][:2] == ("a.jsonl.gz", None)
    assert "got a.jsonl.gz, which is not whole gzip data" in found[-1].why
    found = read(written(tmp_path / "b.jsonl", gzip.compress(b"")))
    assert "b.jsonl, which holds gzip data" in found[0].why


@pytest.mark.parametrize("block", [1, 10, 1 << 17])
def test_plain_text_is_separated_and_only_very_long_documents_are_cut(tmp_path, monkeypatch, block):
    monkeypatch.setattr("cem_jax.data.reading.BLOCK", block)
    monkeypatch.setattr("cem_jax.data.prepared.plain_text.WHOLE", 41)
    monkeypatch.setattr("cem_jax.data.prepared.plain_text.LONGEST", 15)
    lines = "".join(f"line {n} é\n" for n in range(20))
    texts = [
        "a document\nof two lines, 31 bytes.",
        lines,
        "",
        "é" * 50,
        "w x " * 20,
        "the last document",
    ]
    found = read(written(tmp_path / "a.txt", "\x1e".join(texts).encode()))
    pieces = [each.text for each in found]
    assert "".join(pieces) == "".join(texts)
    assert pieces[0] == texts[0]
    assert pieces[-1] == "the last document"
    cut = [piece for piece in pieces if piece.startswith("line")]
    assert cut
    assert all(piece.endswith("\n") and len(piece) <= 15 for piece in cut)
    assert sum(set(piece) == {"é"} for piece in pieces) > 3
    monkeypatch.setattr("cem_jax.data.reading.BLOCK", 1 << 17)
    assert found == read(tmp_path / "a.txt")


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.txt"])
def test_a_file_is_never_in_memory_as_a_whole(tmp_path, monkeypatch, name):
    monkeypatch.setattr("cem_jax.data.prepared.documents.LONGEST", 100_000)
    monkeypatch.setattr("cem_jax.data.prepared.plain_text.WHOLE", 100_000)
    # One line that is much too long, and many others.
    data = jsonl("b" * 8_000_000) + jsonl(*("text " * 200 for _ in range(8000)))
    path = written(tmp_path / name, gzip.compress(data, 1) if name.endswith("gz") else data)
    tracemalloc.start()
    try:
        for _ in documents(tmp_path, Input(name, path.stat().st_size, None), lambda count: None):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < len(data) / 10


def test_parquet_is_read_by_its_columns(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra parquet)")
    from pyarrow import parquet

    texts = [f"text {n}" for n in range(600)]
    metas = [{"redpajama_set_name": f"set {n % 2}"} for n in range(600)]
    parquet.write_table(
        pyarrow.table({"id": range(600), "text": [*texts[:5], None, *texts[6:]], "meta": metas}),
        tmp_path / "a.parquet",
        row_group_size=100,
    )
    told = []
    found = read(tmp_path / "a.parquet", told.append)
    assert found[:2] == [Document("text 0", "set 0"), Document("text 1", "set 1")]
    assert [each.text for each in found[6:]] == texts[6:]
    assert found[5][:2] == ("a.parquet", 6)
    assert 'row 6 of a.parquet with no "text"' in found[5].why
    assert sum(told) == (tmp_path / "a.parquet").stat().st_size


def test_parquet_without_texts_or_cut_is_broken(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra parquet)")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"a": [1], "b": [2]}), tmp_path / "a.parquet")
    assert "a.parquet with columns a, b, expected" in read(tmp_path / "a.parquet")[0].why
    parquet.write_table(pyarrow.table({"text": [1]}), tmp_path / "b.parquet")
    assert '"text" of type int64' in read(tmp_path / "b.parquet")[0].why
    data = (tmp_path / "b.parquet").read_bytes()
    (found,) = read(written(tmp_path / "c.parquet", data[:-8]))
    assert found[:2] == ("c.parquet", None)
    assert "cannot be read as parquet" in found.why


def test_plain_files_need_no_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert read(written(tmp_path / "a.txt", b"text")) == [Document("text")]
