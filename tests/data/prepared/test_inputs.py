import pytest

from cem_jax.data.prepared.inputs import Input, find_inputs, group


def make(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * len(name))
    return root


def found(root):
    return [(file.name, file.split) for file in find_inputs(str(root)).files]


def test_splits_in_chunks_or_without_and_with_gaps(tmp_path):
    make(
        tmp_path,
        "train/chunk2/example_train_9.jsonl",
        "train/chunk1/example_train_31.jsonl.gz",
        "train/example_train_4.jsonl.xz",
        "validation/example_holdout_2.jsonl",
        "test/chunk7/example_holdout_0.jsonl",
        "README.txt",
        "train/.cache/example_train_1.jsonl",
    )
    assert found(tmp_path) == [
        ("train/chunk1/example_train_31.jsonl.gz", "train"),
        ("train/chunk2/example_train_9.jsonl", "train"),
        ("train/example_train_4.jsonl.xz", "train"),
        ("validation/example_holdout_2.jsonl", "valid"),
        ("test/chunk7/example_holdout_0.jsonl", "test"),
    ]


def test_splits_by_the_names_of_files(tmp_path):
    make(tmp_path, "train-00000-of-00002.jsonl", "Validation_0.jsonl", "test.jsonl")
    assert {split for _, split in found(tmp_path)} == {"train", "valid", "test"}


def test_without_splits_documents_have_none(tmp_path):
    make(tmp_path, "trains/a.txt", "tests/b.txt.gz", "c.txt", "notes.md")
    assert found(tmp_path) == [("c.txt", None), ("tests/b.txt.gz", None), ("trains/a.txt", None)]
    assert found(tmp_path / "c.txt") == [("c.txt", None)]


def test_some_splits_are_refused_by_name(tmp_path):
    make(tmp_path, "train/a.jsonl", "train/b.jsonl", "test/a.jsonl")
    with pytest.raises(ValueError, match=r"1 files in test, 2 files in train, expected all three"):
        find_inputs(str(tmp_path))
    make(tmp_path, "validation/a.jsonl", "more/a.jsonl")
    with pytest.raises(ValueError, match="1 files in none"):
        find_inputs(str(tmp_path))


def test_two_kinds_and_none_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"expected \.jsonl, \.parquet or \.txt files in it"):
        find_inputs(str(make(tmp_path, "a.csv")))
    with pytest.raises(ValueError, match="1 files jsonl and 1 files parquet, expected one kind"):
        find_inputs(str(make(tmp_path, "a.jsonl", "a.parquet")))
    with pytest.raises(ValueError, match="where there is nothing"):
        find_inputs(str(tmp_path / "missing"))


def test_a_missing_package_is_named_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(ValueError, match=r"pyarrow.*cem_jax\[parquet\]"):
        find_inputs(str(make(tmp_path, "a.parquet")))
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(ValueError, match=r"zstandard.*cem_jax\[zstd\]"):
        find_inputs(str(make(tmp_path / "b", "a.jsonl", "b.jsonl.zst")))


def test_neighbours_of_one_split_make_a_shard():
    sizes = [("a", 5, "train"), ("b", 4, "train"), ("c", 30, "train"), ("d", 1, "train")]
    files = tuple(Input(*each) for each in [*sizes, ("e", 1, "valid"), ("f", 1, "valid")])
    names = ["".join(file.name for file in part) for part in group(files, 6)]
    assert names == ["ab", "c", "d", "ef"]
    assert ["".join(f.name for f in part) for part in group(files, 1)] == list("abcdef")
