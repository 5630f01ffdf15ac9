import pytest

from cem_jax.data import (
    ByteTokenizer,
    SentencePieceTokenizer,
    Tokenizer,
    check_spec,
    load_tokenizer,
    make_tokenizer,
    train_tokenizer,
)

TEXT = ["the cat sat on the mat\nand the dog sat on the log in 1790\n", "a hat, a bat"]


@pytest.fixture(scope="module")
def trained():
    return train_tokenizer(TEXT, 320)


@pytest.fixture
def saved(trained, tmp_path):
    trained.save(tmp_path / "saved")
    return tmp_path / "saved"


def test_a_spec_makes_the_tokenizer_that_it_says(trained, saved):
    for spec, kind, size in (
        ("byte", ByteTokenizer, 258),
        ("train:320", SentencePieceTokenizer, 320),
        (str(saved), SentencePieceTokenizer, 320),
        (str(saved / "tokenizer.model"), SentencePieceTokenizer, 320),
    ):
        tokenizer = make_tokenizer(spec, TEXT)
        assert isinstance(tokenizer, kind)
        assert isinstance(tokenizer, Tokenizer)
        assert tokenizer.vocab_size == check_spec(spec) == size
    assert make_tokenizer("train:320", iter(TEXT)).content_hash() == trained.content_hash()


def test_tokenizers_are_loaded_as_they_were_saved(trained, tmp_path):
    for tokenizer, name in ((trained, "tokenizer.model"), (ByteTokenizer(), "byte_tokenizer.json")):
        # Into the same folder: the second replaces the first.
        tokenizer.save(tmp_path / "new" / "folder")
        assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == [name]
        for path in (tmp_path / "new" / "folder", tmp_path / "new" / "folder" / name):
            loaded = load_tokenizer(path)
            assert type(loaded) is type(tokenizer)
            assert loaded.content_hash() == tokenizer.content_hash()
            assert loaded.document("the \udcff") == tokenizer.document("the \udcff")
    assert trained.content_hash() != ByteTokenizer().content_hash()


def test_a_save_that_breaks_off_leaves_what_was_there(trained, saved, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", stop)
    with pytest.raises(KeyboardInterrupt):
        ByteTokenizer().save(saved)
    assert load_tokenizer(saved).content_hash() == trained.content_hash()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("train:", "got 'train:', expected a whole number of pieces after train:, such as"),
        ("train:abc", "got 'train:abc', expected a whole number"),
        ("train:-5", "got 'train:-5', expected a whole number"),
        ("train:2_048", "got 'train:2_048', expected a whole number"),
        ("train:²", "got 'train:²', expected a whole number"),
        ("train:100", "'train:100': vocabulary: got 100, expected at least 320"),
        ("train:9999999", "got 9999999, expected at most 1000000"),
        ("train:" + "9" * 5000, "^tokenizer 'train:9+': "),
        ("bytes", r"got 'bytes', where there is nothing, expected byte, train:.*mean byte\?"),
        ("BYTE", r"Did you mean byte\?"),
        ("train", r"Did you mean train:2048\?"),
        ("Train:512", r"Did you mean train:512\?"),
        ("tarin:4096", r"Did you mean train:4096\?"),
        ("", r"got '', where there is nothing, .* sentencepiece model\.$"),
        ("missing.model", r"the path of a sentencepiece model\.$"),
        ("~no-such-user/a", r"the path of a sentencepiece model\.$"),
        ("a" * 5000, r"the path of a sentencepiece model\.$"),
    ],
    ids=lambda value: value[:12],
)
def test_specs_that_are_none_stop_before_any_work(spec, message):
    for check in (check_spec, lambda spec: make_tokenizer(spec, never())):
        with pytest.raises(ValueError, match=message):
            check(spec)


def never():
    raise AssertionError("the documents were looked at")
    yield


def test_a_path_without_a_tokenizer_is_named(tmp_path, saved):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "missing"):
        with pytest.raises(ValueError, match=rf"{path.name} with 0 tokenizers, expected a file"):
            load_tokenizer(path)
    (saved / "byte_tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="saved with 2 tokenizers, expected"):
        check_spec(str(saved))


def test_a_file_that_is_no_tokenizer_is_named(tmp_path, monkeypatch):
    (tmp_path / "some.model").write_bytes(b"text\n" * 99)
    for read in (check_spec, load_tokenizer):
        with pytest.raises(ValueError, match=r"some\.model: tokenizer: got 495 bytes that are no"):
            read(str(tmp_path / "some.model"))

    def denied(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", denied)
    with pytest.raises(ValueError, match=r"some\.model, which cannot be read \(Permission denied"):
        load_tokenizer(tmp_path / "some.model")
