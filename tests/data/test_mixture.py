"""Several prepared folders, drawn by weights."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest

from cem_jax.data import Mixture, Pipeline, PrepareConfig, PreparedCorpus, open_prepared, prepare

LENGTH, BATCH = 16, 10
WEIGHTS = {"books": 0.5, "code": 0.2, "web": 0.3}
SPLITS = ("train", "valid", "test")


def source(root, name, documents=50, length=LENGTH, tokenizer="byte", more=""):
    (root / f"{name}.text").mkdir(parents=True)
    for split in ("train", "validation", "test"):
        texts = (f"{name} {split} {n}{more}" for n in range(documents))
        lines = (json.dumps({"text": text}) + "\n" for text in texts)
        (root / f"{name}.text" / f"{split}.jsonl").write_text("".join(lines))
    prepare(PrepareConfig(str(root / f"{name}.text"), tokenizer, length), root / name)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("mixture")
    for name, documents in (("web", 10), ("books", 30), ("code", 10)):
        source(root, name, documents)
    return root


def write(path, weights, folders=None):
    folder = folders or {}
    tables = (
        f'[{name}]\nfolder = "{folder.get(name, name)}"\nweight = {weight}\n'
        for name, weight in weights.items()
    )
    path.write_text("".join(tables))
    return path


@pytest.fixture
def mixture(root):
    return Mixture.open(write(root / "mixture.toml", WEIGHTS))


def of(mixture, numbers, split="train"):
    """The source of each row."""
    rows = mixture.rows(split)
    return [rows.where(number).split("/")[-2] for number in np.ravel(numbers).tolist()]


def test_rows_are_those_of_the_sources_and_say_where_they_lie(root, mixture):
    for split in SPLITS:
        rows, start = mixture.rows(split), 0
        for name in sorted(WEIGHTS):
            own = PreparedCorpus.open(root / name).rows(split)
            found = rows.packed(slice(start, start + len(own)))
            np.testing.assert_array_equal(found.tokens, own.packed(slice(None)).tokens)
            assert rows.where(start + 2) == f"2 of {root / name / f'{split}-'}" + (
                f"{SPLITS.index(split):06d}.arrayrecord"
            )
            start += len(own)
        assert len(rows) == start
        assert rows.predicted == sum(
            PreparedCorpus.open(root / n).rows(split).predicted for n in WEIGHTS
        )


def test_every_batch_has_as_many_rows_of_each_source_as_its_weight_says(mixture):
    pipeline = Pipeline(mixture.rows("train"), batch=BATCH, seed=3)
    for step in (0, 1, 17, 1000):
        counts = Counter(of(mixture, pipeline.rows_of(step)))
        assert all(abs(counts[name] - BATCH * weight) <= 1 for name, weight in WEIGHTS.items())
    counts = Counter(of(mixture, [pipeline.rows_of(step) for step in range(100)]))
    for name, weight in WEIGHTS.items():
        assert abs(counts[name] / (100 * BATCH) - weight) < 0.01 * weight + 0.001


def test_each_source_has_epochs_of_its_own(mixture):
    pipeline = Pipeline(mixture.rows("train"), batch=BATCH, seed=3)
    drawn = np.concatenate([pipeline.rows_of(step) for step in range(60)])
    names = np.asarray(of(mixture, drawn))
    for name in WEIGHTS:
        own, size = drawn[names == name], len(mixture.sources[name].corpus.rows("train"))
        epochs = [tuple(own[s : s + size]) for s in range(0, len(own) - size + 1, size)]
        assert len(epochs) > 2
        assert len({frozenset(epoch) for epoch in epochs}) == 1
        assert len(set(epochs[0])) == size
        assert len(set(epochs)) == len(epochs)
    # Two of one size are shuffled apart.
    web, code = (drawn[names == name] for name in ("web", "code"))
    assert (web[:10] - web.min()).tolist() != (code[:10] - code.min()).tolist()


def test_a_batch_is_a_function_of_seed_and_step(mixture):
    rows = mixture.rows("train")
    pipeline = Pipeline(rows, batch=BATCH, seed=3)
    met = [pipeline.rows_of(step).tolist() for step in range(40)]
    for step in (39, 0, 7):
        assert Pipeline(rows, batch=BATCH, seed=3).rows_of(step).tolist() == met[step]
    assert Pipeline(rows, batch=BATCH, seed=4).rows_of(0).tolist() != met[0]
    by_one = Pipeline(rows, batch=1, seed=3)
    assert [by_one.rows_of(n).item() for n in range(20)] == [*met[0], *met[1]]


def test_it_is_known_by_rows_and_weights_and_not_by_places(root, mixture, tmp_path):
    shutil.copytree(root / "books", tmp_path / "moved")
    order = {"web": 0.3, "books": 0.5, "code": 0.2}
    places = {"books": str(tmp_path / "moved"), "web": str(root / "web"), "code": f"{root}/code"}
    same = Mixture.open(write(tmp_path / "a.toml", order, places))
    assert same.content_hash() == mixture.content_hash()
    np.testing.assert_array_equal(
        *(Pipeline(m.rows("train"), batch=BATCH, seed=0).rows_of(5) for m in (same, mixture))
    )
    other = Mixture.open(write(tmp_path / "a.toml", {**order, "web": 0.31}, places))
    assert other.content_hash() != mixture.content_hash()
    swapped = {**places, "web": places["code"], "code": places["web"]}
    other = Mixture.open(write(tmp_path / "a.toml", order, swapped))
    assert other.content_hash() != mixture.content_hash()


def test_what_cannot_be_mixed_is_refused_by_name(root, tmp_path):
    source(tmp_path, "longer", length=17)
    source(tmp_path, "pieces", tokenizer="train:330", more=" and the union is very strong")
    for name in ("web", "books"):
        shutil.copytree(root / name, tmp_path / name)
    shutil.copytree(root / "web", tmp_path / "web2")
    file = tmp_path / "m.toml"
    for text, message in (
        ("[web", "m.toml, which is no TOML"),
        ("", "without a source, expected a table"),
        ("[web]\nfolder = 'web'\n", r"\[web\] of .* with folder, expected a table with folder and"),
        ("web = 0.7\n", r"\[web\] of .* with 0.7, expected a table"),
        (
            "[web]\nfolder = 'no'\nweight = 1\n",
            r"\[web\] of .* with folder 'no', expected one",
        ),
        ("[web]\nfolder = 'web'\nweight = 0\n", r"\[web\] of .* with weight 0, expected a posit"),
        ("[web]\nfolder = 'web'\nweight = nan\n", r"with weight nan"),
        ("[web]\nfolder = 'web'\nweight = true\n", r"with weight True"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=message):
            Mixture.open(file)
    for other, message in (
        ("longer", "books has rows of length 16 .* and longer 17 and .*--length 16"),
        ("pieces", "books has .* and pieces 16 and .*prepare pieces again with"),
        ("web2", "web and web2 are the same rows"),
    ):
        with pytest.raises(ValueError, match=message):
            Mixture.open(write(file, {"books": 1, "web": 1, other: 1}))


def test_what_a_name_stands_for(root, mixture, tmp_path):
    assert isinstance(open_prepared(str(root / "mixture.toml")), Mixture)
    assert isinstance(open_prepared(str(root / "web")), PreparedCorpus)
    assert open_prepared("sotu") is None
    assert open_prepared(str(tmp_path / "missing.toml")) is None
