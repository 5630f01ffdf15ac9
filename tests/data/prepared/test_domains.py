"""The domain of each held-out piece, beside the rows."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
import slimpajama

from cem_jax.data import ByteTokenizer, PreparedCorpus
from cem_jax.data.prepared import PrepareConfig, prepare

pytest.importorskip("zstandard", reason="zstandard is not installed (extra zstd)")

LENGTH = 16


@pytest.fixture(scope="module")
def slim(tmp_path_factory):
    root = tmp_path_factory.mktemp("slim")
    return root, slimpajama.write(root)


def prepared(slim, out, **changes):
    given = {"tokenizer": "byte", "length": LENGTH, "shard_bytes": 1, **changes}
    prepare(PrepareConfig(str(slim[0]), **given), out)
    return PreparedCorpus.open(out)


@pytest.mark.parametrize("packing", ["concat-split", "best-fit"])
@pytest.mark.parametrize("split", ["valid", "test"])
def test_each_target_is_of_the_domain_of_its_document(slim, tmp_path, packing, split):
    corpus = prepared(slim, tmp_path / "out", packing=packing)
    expected, tokenizer = {}, ByteTokenizer()
    for record in slim[1][split]:
        of = expected.setdefault(record["meta"]["redpajama_set_name"], Counter())
        of.update(tokenizer.document(record["text"])[1:])
    domains, rows = corpus.domains(split), corpus.rows(split)
    assert list(domains.counts) == sorted(expected)
    # With an empty row at the end, and some of the rows only.
    padded, labels = rows.padded(7), domains.padded(7).of_targets(slice(0, None))
    batch = padded.batch(slice(0, None))
    for number, name in enumerate(domains.counts):
        chosen = batch.mask & (labels == number)
        assert Counter(batch.targets[chosen].tolist()) == expected[name]
        assert chosen.sum() == domains.counts[name].targets
    some = slice(None, None, 3)
    np.testing.assert_array_equal(
        domains.select(some).of_targets(slice(None)), labels[: len(rows)][some]
    )


def test_text_of_one_domain_and_what_is_learned_from_have_none(slim, tmp_path):
    assert prepared(slim, tmp_path / "all").domains("train") is None
    one = prepared(slim, tmp_path / "one", domains=("RedPajamaBook",))
    assert one.domains("valid") is None


def test_a_folder_of_an_older_version_opens_and_has_none(slim, tmp_path):
    new, old = prepared(slim, tmp_path / "new"), tmp_path / "old"
    shutil.copytree(tmp_path / "new", old)
    manifest = json.loads((old / "manifest.json").read_text())
    for shard in manifest.pop("labels"):
        (old / shard["name"]).unlink()
    del manifest["checksum"]
    (old / "manifest.json").write_text(json.dumps(manifest))
    opened = PreparedCorpus.open(old)
    assert opened.domains("valid") is None
    # A run on it goes on with the folder that is prepared again.
    assert opened.content_hash() == new.content_hash()


def test_labels_that_are_missing_are_told(slim, tmp_path):
    corpus = prepared(slim, tmp_path / "out")
    (tmp_path / "out" / corpus.manifest.labels[0].name).unlink()
    with pytest.raises(ValueError, match=r"\.domains\.arrayrecord is missing or has another size"):
        PreparedCorpus.open(tmp_path / "out")
