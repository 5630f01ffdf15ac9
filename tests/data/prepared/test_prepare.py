import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import slimpajama

import cem_jax
from cem_jax.data import CORPORA, ByteTokenizer, Corpus, PreparedCorpus, is_prepared, pack
from cem_jax.data.prepared import Manifest, PrepareConfig, inputs, prepare, sample
from cem_jax.data.prepared.config import SHARDS
from cem_jax.data.prepared.inputs import SPLITS, Input, find_inputs, group, shard_size
from cem_jax.data.prepared.plan import begin, plan_of
from cem_jax.data.prepared.shard_reader import OPEN

pytest.importorskip("zstandard", reason="zstandard is not installed (extra zstd)")

LENGTH = 16


@pytest.fixture(scope="module")
def slim(tmp_path_factory):
    root = tmp_path_factory.mktemp("slim")
    return root, slimpajama.write(root)


def config(root, **changes):
    given = {"tokenizer": "byte", "length": LENGTH, "shard_bytes": 1, **changes}
    return PrepareConfig(str(root), **given)


@pytest.fixture(scope="module")
def reference(slim, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "prepared"
    prepare(config(slim[0]), out)
    return out


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def targets(corpus, split):
    batch = corpus.rows(split).batch(slice(None))
    return batch.targets[batch.mask].tolist()


def expected_targets(records):
    tokenizer = ByteTokenizer()
    return [piece for each in records for piece in tokenizer.document(each["text"])[1:]]


def test_every_piece_is_a_target_once_and_in_order(slim, reference):
    corpus = PreparedCorpus.open(reference)
    for split in SPLITS:
        assert targets(corpus, split) == expected_targets(slim[1][split])
        assert corpus.rows(split).predicted == len(targets(corpus, split))


@pytest.mark.parametrize("shard_bytes", [1, 4000])
def test_best_fit_has_every_target_once(slim, tmp_path, shard_bytes):
    prepare(config(slim[0], packing="best-fit", shard_bytes=shard_bytes), tmp_path / "p")
    corpus = PreparedCorpus.open(tmp_path / "p")
    assert (len(corpus.manifest.of_split("train")) == 6) == (shard_bytes == 1)
    for split in SPLITS:
        assert Counter(targets(corpus, split)) == Counter(expected_targets(slim[1][split]))


def test_the_manifest_counts_by_split_and_domain(slim, reference):
    tally = Manifest.read(reference).tally
    for split in SPLITS:
        for domain in slimpajama.DOMAINS:
            texts = [
                each["text"]
                for each in slim[1][split]
                if each["meta"]["redpajama_set_name"] == domain
            ]
            counts = tally.taken[split][domain]
            assert (counts.documents, counts.bytes) == (len(texts), sum(map(len, texts)))
            assert counts.targets == sum(len(text) + 1 for text in texts)
    assert tally.total("train").documents == 180


KILLED = """
import os, signal, sys
from pathlib import Path
from cem_jax.data.prepared import PrepareConfig, prepare

def told(read, total):
    if read > total / 3:
        os.kill(os.getpid(), signal.SIGKILL)

config = PrepareConfig(sys.argv[1], "byte", {length}, shard_bytes=1)
prepare(config, Path(sys.argv[2]), workers=int(sys.argv[3]), told=told)
"""


@pytest.mark.parametrize("workers", [1, 3])
def test_killed_and_begun_again_gives_the_same_bytes(slim, reference, tmp_path, workers):
    out, root = tmp_path / "p", str(Path(cem_jax.__file__).parents[1])
    program = f"import sys; sys.path.insert(0, {root!r})\n" + KILLED.format(length=LENGTH)
    words = [sys.executable, "-c", program, str(slim[0]), str(out), str(workers)]
    # The pipe is closed when the last of the processes has gone: none outlives the one that asked.
    ended = subprocess.run(words, capture_output=True, timeout=120, check=False)
    assert ended.returncode == -9, ended.stderr.decode()
    assert not (out / "manifest.json").exists()
    done = {path.name: path.stat().st_mtime_ns for path in out.glob("*.arrayrecord")}
    assert done
    assert is_prepared(str(out))
    with pytest.raises(ValueError, match=r"has not ended \(\d+ parts are done\).*which goes on"):
        PreparedCorpus.open(out)
    prepare(config(slim[0]), out)
    assert contents(out) == contents(reference)
    reports = len(list((out / "parts").glob("*.json")))
    assert reports == 0
    again = {name: (out / name).stat().st_mtime_ns for name in done}
    # At most the parts in work were made again.
    assert sum(again[name] != when for name, when in done.items()) <= workers


def changed(folder):
    return folder.stat().st_mtime_ns if folder.exists() else None


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_at_random_moments_gives_the_same_bytes(slim, reference, tmp_path, workers):
    out, draw = tmp_path / "p", random.Random(workers)
    where = [str(slim[0]), "--out", str(out), "--tokenizer", "byte", "--length", str(LENGTH)]
    words = [sys.executable, "-m", "cem_jax.cli.main", "data", "prepare", *where]
    words += ["--shard-bytes", "1", "--workers", str(workers)]
    environment = {**os.environ, "PYTHONPATH": str(Path(cem_jax.__file__).parents[1])}
    killed, tries = 0, 0
    while killed < 3:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, env=environment)
        for _ in range(draw.randint(1, 8)):
            before = changed(out)
            while process.poll() is None and changed(out) == before:
                time.sleep(0.002)
        process.kill()
        # The pipe is closed when the last of its processes has gone.
        process.communicate()
        killed, tries = killed + (process.returncode == -9), tries + 1
        assert tries < 30
        if process.returncode == 0:
            shutil.rmtree(out)
    subprocess.run(words, check=True, capture_output=True, env=environment)
    (out / ".lock").unlink()
    assert contents(out) == contents(reference)


def test_killed_between_the_manifest_and_the_end(slim, reference, tmp_path):
    out = tmp_path / "p"
    shutil.copytree(reference, out)
    (out / "parts").mkdir()
    (out / "parts/000000.json").write_text("{}")
    prepare(config(slim[0]), out)
    assert contents(out) == contents(reference)


def test_killed_while_the_tokenizer_was_written(slim, reference, tmp_path):
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "byte_tokenizer.json.part").write_bytes(b"half")
    shutil.copy(reference / "plan.json", tmp_path)
    prepare(config(slim[0]), tmp_path)
    assert contents(tmp_path) == contents(reference)


def test_the_number_of_workers_does_not_matter(slim, reference, tmp_path):
    told = []
    out = tmp_path / "p"
    prepare(config(slim[0]), out, workers=3, told=lambda read, total: told.append((read, total)))
    assert contents(out) == contents(reference)
    size = sum(path.stat().st_size for path in slim[0].rglob("*.zst"))
    assert told[-1] == (size, size)


def test_a_complete_folder_is_left_as_it_is(slim, reference):
    before = {path: path.stat().st_mtime_ns for path in reference.rglob("*")}
    manifest = prepare(config(slim[0]), reference, told=lambda *_: pytest.fail("work was done"))
    assert manifest == Manifest.read(reference)
    assert {path: path.stat().st_mtime_ns for path in reference.rglob("*")} == before


def test_only_the_domains_that_are_asked_for(slim, tmp_path):
    wanted = ("RedPajamaBook", "RedPajamaC4")
    manifest = prepare(config(slim[0], domains=wanted), tmp_path / "p")
    corpus = PreparedCorpus.open(tmp_path / "p")
    for split in SPLITS:
        records = [e for e in slim[1][split] if e["meta"]["redpajama_set_name"] in wanted]
        assert targets(corpus, split) == expected_targets(records)
    everything = sum(map(len, slim[1].values()))
    taken = sum(manifest.tally.total(split).documents for split in SPLITS)
    assert manifest.tally.left_out == {"RedPajamaWikipedia": everything - taken}


def test_a_domain_that_is_not_there_is_answered_with_those_that_are(slim, tmp_path):
    with pytest.raises(ValueError, match=r"'Wiki', of which .* RedPajamaBook, RedPajamaC4, RedPa"):
        prepare(config(slim[0], domains=("RedPajamaC4", "Wiki")), tmp_path / "p")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_broken_line_stops_or_is_skipped_and_counted(tmp_path, reference, workers):
    slimpajama.write(tmp_path / "s", broken=True)
    out = tmp_path / "p"
    name = "train/chunk1/example_train_14.jsonl.zst"
    with pytest.raises(ValueError, match=rf"got line 5 of {name}, which is not JSON .*--on-error"):
        prepare(config(tmp_path / "s"), out, workers=workers)
    manifest = prepare(config(tmp_path / "s", on_error="skip"), out)
    assert (manifest.tally.lines, manifest.tally.files) == (1, 0)
    assert [(e["file"], e["line"]) for e in manifest.tally.examples] == [(name, 5)]
    assert manifest.content_hash() == Manifest.read(reference).content_hash()


def test_a_broken_file_is_counted_and_what_was_read_of_it_kept(slim, tmp_path):
    root = tmp_path / "s"
    shutil.copytree(slim[0], root)
    path = root / "train/chunk2/example_train_21.jsonl.zst"
    path.write_bytes(path.read_bytes()[:-5])
    manifest = prepare(config(root, on_error="skip"), tmp_path / "p")
    assert (manifest.tally.lines, manifest.tally.files) == (0, 1)
    assert "example_train_21.jsonl.zst, which is not whole zstd data" in str(manifest.tally)
    assert 150 < manifest.tally.total("train").documents < 180


def test_what_was_begun_otherwise_is_refused_by_name(slim, reference, tmp_path):
    for change, message in (
        ({"length": 17}, "length: 16 there, 17"),
        ({"tokenizer": "train:330"}, "tokenizer: 'byte' there, 'train:330'"),
        ({"packing": "best-fit"}, "packing: 'concat-split' there, 'best-fit'"),
    ):
        with pytest.raises(ValueError, match=rf"begun otherwise \({message}"):
            prepare(config(slim[0], **change), reference)
    slimpajama.write(tmp_path / "s", documents=31)
    with pytest.raises(ValueError, match=r"files_bytes: .* there"):
        prepare(config(tmp_path / "s"), reference)
    for name in ("mine.txt", "my-plan.json"):
        (tmp_path / f"with {name}").mkdir()
        (tmp_path / f"with {name}" / name).write_text("")
        with pytest.raises(ValueError, match=rf"not empty \({name}\) and holds no prepared text"):
            prepare(config(slim[0]), tmp_path / f"with {name}")


def test_large_text_has_few_shards():
    """About 900 GB in files of 15 MB, which is read at random; and text that makes one shard."""
    files = tuple(Input(f"train/{n}.jsonl.zst", 15 << 20, "train") for n in range(60_000))
    sizes = [len(part) for part in group(files, shard_size(files, None))]
    assert sum(sizes) == 60_000
    assert len(sizes) <= SHARDS < OPEN
    assert [len(part) for part in group(files[:8], shard_size(files[:8], None))] == [8]
    assert shard_size(files, 7) == 7


def test_what_makes_a_shard_is_taken_by_default_too(slim, tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "LEAST_SHARD", 1)
    monkeypatch.setattr(inputs, "SHARDS", 100)
    manifest = prepare(config(slim[0], shard_bytes=None), tmp_path / "p")
    assert manifest.plan["shard_bytes"] == -(-manifest.plan["files_bytes"] // 100)
    # A hundredth is less than a file, and each is a shard.
    assert len(manifest.of_split("train")) == 6


def test_the_size_of_a_file_is_asked_for_once():
    """A sum over the part for each of its files took minutes for twenty thousand of them."""
    asked = []

    class Asked(Input):
        @property
        def size(self):
            asked.append(self.name)
            return 1

    files = tuple(Asked(str(number), 1, None) for number in range(50))
    assert len(list(group(files, 1000))) == 1
    assert len(asked) == 50


def test_a_plan_of_which_nothing_came_gives_way_to_another(slim, tmp_path):
    out = tmp_path / "p"
    out.mkdir()
    begin(out, plan_of(config(slim[0]), find_inputs(str(slim[0]))))
    manifest = prepare(config(slim[0], length=17), out)
    assert manifest.length == 17


def test_a_folder_that_is_not_whole_is_refused(reference, tmp_path):
    out = tmp_path / "p"
    shutil.copytree(reference, out)
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps(manifest).replace("concat-split", "best-fit"))
    with pytest.raises(ValueError, match=r"manifest\.json \(ValueError: its checksum is that of"):
        Manifest.read(out)
    del manifest["checksum"]
    (out / "manifest.json").write_text(json.dumps({**manifest, "format": 2}))
    with pytest.raises(ValueError, match="in the form 2, expected 1; prepare the text again"):
        Manifest.read(out)
    (out / "manifest.json").write_text(json.dumps({"format": 1}))
    with pytest.raises(ValueError, match=r"damaged file .*manifest\.json \(KeyError"):
        Manifest.read(out)
    (out / "manifest.json").write_text(json.dumps(manifest))
    shard = out / manifest["shards"][1]["name"]
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(ValueError, match=f"{shard.name} is missing .* one of 1 such shards"):
        Manifest.read(out)


def test_another_tokenizer_in_the_folder_is_refused(reference, tmp_path):
    out = tmp_path / "p"
    shutil.copytree(reference, out)
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["checksum"]
    manifest["tokenizer_hash"] = "0" * 64
    (out / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"prepared with a tokenizer of 258 pieces .*000000000000"):
        PreparedCorpus.open(out)


def test_without_splits_the_hash_of_a_document_decides(tmp_path):
    texts = [f"document {n} of some words" for n in range(300)]
    rows = {}
    for order, names in (("a", range(300)), ("b", reversed(range(300)))):
        root = tmp_path / order
        root.mkdir()
        for text, name in zip(texts, names, strict=True):
            (root / f"{name:03d}.txt").write_text(f"{text}\x1e{text}")
        out = tmp_path / f"{order}.out"
        manifest = prepare(config(root, shard_bytes=1000), out)
        counts = [manifest.tally.total(split).documents for split in SPLITS]
        assert sum(counts) == 600
        assert all(count % 2 == 0 for count in counts)
        assert 12 <= counts[1] <= 60
        assert 12 <= counts[2] <= 60
        rows[order] = {split: Counter(targets(PreparedCorpus.open(out), split)) for split in SPLITS}
    assert rows["a"] == rows["b"]


def test_a_split_without_text_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("one document")
    with pytest.raises(ValueError, match=r"with no document for the .* split, expected at least"):
        prepare(config(tmp_path / "a.txt"), tmp_path / "p")


def test_where_nothing_is_whole_what_was_skipped_is_said(tmp_path):
    (tmp_path / "a.jsonl").write_text("no JSON\n" * 3)
    message = (
        r"with no document for the train split.* 3 broken lines and 0 broken files were skipped, "
        r"the first: .*a\.jsonl"
    )
    with pytest.raises(ValueError, match=message):
        prepare(config(tmp_path / "a.jsonl", on_error="skip"), tmp_path / "p")


def test_a_domain_that_no_document_has_is_refused_with_those_that_are_there(slim, tmp_path):
    with pytest.raises(ValueError, match=r"'Nothing', of which .* expected some of RedPajama"):
        prepare(config(slim[0], domains=("Nothing",)), tmp_path / "p")
    (tmp_path / "a.txt").write_text("one document")
    with pytest.raises(ValueError, match="expected none, as no document there names its domain"):
        prepare(config(tmp_path / "a.txt", domains=("Nothing",)), tmp_path / "q")


def test_the_tokenizer_sees_a_bounded_sample_of_the_train_split(slim, monkeypatch):
    found = find_inputs(str(slim[0]))
    texts = [each["text"] for each in slim[1]["train"]]
    assert list(sample.training_sample(config(slim[0]), found)) == texts
    monkeypatch.setattr(sample, "SAMPLE_BYTES", 6000)
    some = list(sample.training_sample(config(slim[0]), found))
    assert 4000 < sum(map(len, some)) < 8000
    assert {texts.index(text) // 30 for text in some} == set(range(6))
    monkeypatch.setattr(sample, "SAMPLE_FILES", 2)
    some = list(sample.training_sample(config(slim[0]), found))
    assert {texts.index(text) // 30 for text in some} == {0, 3}


def test_a_built_in_corpus_keeps_its_splits(tmp_path, monkeypatch):
    corpus = Corpus.by_rank("numbers", [f"number {rank}" for rank in range(40)])
    monkeypatch.setitem(CORPORA, "numbers", lambda: corpus)
    prepare(config("numbers"), tmp_path / "p")
    prepared = PreparedCorpus.open(tmp_path / "p")
    for split in SPLITS:
        documents = [ByteTokenizer().document(text) for text in getattr(corpus, split)]
        expected = pack(documents, LENGTH)
        found = prepared.rows(split).packed(slice(None))
        for name in ("tokens", "segment", "position"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        assert prepared.utf8_bytes(split) == corpus.utf8_bytes(split)
