"""What befalls a prepared folder after it was written is seen, and named."""

import hashlib
import json
import shutil

import jax
import numpy as np
import pytest

from cem_jax.cli.data_shown import verified
from cem_jax.data import Pipeline, PreparedCorpus
from cem_jax.data.prepared import PrepareConfig, prepare, shards
from cem_jax.data.prepared.shards import ends_of

LENGTH = 16


def prepared(root, word, documents=90):
    """A folder of a text in three files; the sizes of texts do not depend on the word."""
    rng = np.random.default_rng(0)
    (root / word).mkdir(parents=True)
    for split in ("train", "validation", "test"):
        for part in range(2 if split == "train" else 1):
            texts = [f"{word} {n} {rng.integers(1 << 40)}" for n in range(documents)]
            lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
            (root / word / f"{split}-{part}.jsonl").write_text(lines)
    config = PrepareConfig(str(root / word), "byte", LENGTH, shard_bytes=1)
    prepare(config, root / f"{word}.out")
    return root / f"{word}.out"


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    root = tmp_path_factory.mktemp("faults")
    return prepared(root, "this"), prepared(root, "that")


@pytest.fixture
def folder(originals, tmp_path):
    return shutil.copytree(originals[0], tmp_path / "p")


def shard(folder, number=0):
    return folder / f"train-{number:06d}.arrayrecord"


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def read_all(folder):
    """As a run does: open, and then step by step."""
    rows = PreparedCorpus.open(folder).rows("train")
    pipeline = Pipeline(rows, batch=8, seed=0)
    return [pipeline.batch(step) for step in range(-(-len(rows) // 8))]


def gone(folder, other):
    shard(folder, 1).unlink()


def short(folder, other):
    shard(folder, 1).write_bytes(shard(folder, 1).read_bytes()[:-1])


def longer(folder, other):
    shard(folder, 1).write_bytes(shard(folder, 1).read_bytes() + b"\0")


def at_an_end(folder, other):
    flip(shard(folder, 1), 3)


def replaced(folder, other):
    shutil.copy(shard(other, 1), shard(folder, 1))


def replaced_within(folder, other):
    shutil.copy(shard(folder, 0), shard(folder, 1))


@pytest.mark.parametrize(
    "fault", [gone, short, longer, at_an_end, replaced, replaced_within], ids=lambda f: f.__name__
)
def test_a_file_that_is_another_is_refused_before_the_first_row(fault, folder, originals):
    sizes = {path.stat().st_size for each in originals for path in each.glob("train-*")}
    assert len(sizes) == 1, "the size alone tells nothing"
    fault(folder, originals[1])
    with pytest.raises(ValueError, match=r"train-000001\.arrayrecord.*expected.*again"):
        PreparedCorpus.open(folder).rows("train")


def rewrite(folder, change):
    """The manifest with changed shards, as if it had been written so."""
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["checksum"]
    for each in manifest["shards"]:
        change(each)
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("ends", [64, shards.ENDS])
def test_a_flipped_bit_is_refused_at_once_or_by_the_step_that_meets_it(ends, folder, monkeypatch):
    """Wherever it is: no batch is ever another one. Few ends stand for a shard that is large."""
    monkeypatch.setattr(shards, "ENDS", ends)
    rewrite(folder, lambda each: each.update(ends=ends_of(folder / each["name"])))
    expected, data = read_all(folder), shard(folder).read_bytes()
    met = {"at once": 0, "at a step": 0, "harmless": 0}
    # Then comes padding.
    used = data.index(bytes(500))
    for at in range(70, used, used // 25):
        flip(shard(folder), at)
        try:
            jax.tree.map(np.testing.assert_array_equal, read_all(folder), expected)
            met["harmless"] += 1
        except ValueError as error:
            named = str(shard(folder)) in str(error) and "--verify" in str(error)
            met["at a step" if "The batch of step " in str(error) else "at once"] += named
        shard(folder).write_bytes(data)
    assert met["at a step" if ends == 64 else "at once"] >= 15, met


def test_a_shard_of_a_folder_without_ends_is_known_by_its_count(folder, tmp_path):
    """Of versions that did not write them."""
    rewrite(folder, lambda each: each.pop("ends"))
    assert len(read_all(folder)) > 0
    few = prepared(tmp_path, "few!", documents=30)
    shutil.copy(shard(few, 1), shard(folder, 1))
    with pytest.raises(ValueError, match=r"train-000001\.arrayrecord, which holds \d+ rows, expec"):
        PreparedCorpus.open(folder).rows("train")


def test_every_damaged_shard_is_named_by_verify(folder):
    assert verified(PreparedCorpus.open(folder)) == "all 4 shards hold the rows that were written"
    at_an_end(folder, None)
    flip(shard(folder, 0), 700)
    with pytest.raises(ValueError, match="2 of 4 shards") as refused:
        verified(PreparedCorpus.open(folder))
    assert all(str(shard(folder, number)) in str(refused.value) for number in (0, 1))


def test_verify_reads_the_rows_themselves(folder, originals):
    """Even where the ends are those of the file that is there."""
    replaced(folder, originals[1])
    rewrite(folder, lambda each: each.update(ends=ends_of(folder / each["name"])))
    with pytest.raises(ValueError, match=r"1 of 4 shards.*\n.*000001.* with other rows than were"):
        verified(PreparedCorpus.open(folder))


@pytest.mark.parametrize("at", [5, 200, -100])
def test_a_manifest_with_a_changed_byte_is_refused(folder, at):
    path = folder / "manifest.json"
    flip(path, at)
    with pytest.raises(ValueError, match=r"got a damaged file .*manifest\.json.*copy it again"):
        PreparedCorpus.open(folder)


def test_the_ends_are_those_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "ENDS", 3)
    (tmp_path / "a").write_bytes(b"abcdefgh")
    assert ends_of(tmp_path / "a") == hashlib.sha256(b"abcfgh").hexdigest()
