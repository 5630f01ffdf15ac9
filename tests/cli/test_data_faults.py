"""A run whose prepared text is another when it goes on says so, and trains on nothing else."""

import shutil

import pytest
import slimpajama
import small_run
from small_run import stop_after

from cem_jax.cli.main import main
from cem_jax.data.prepared import shards

pytest.importorskip("zstandard", reason="zstandard is not installed (extra zstd)")


def prepare(root, documents=30):
    slimpajama.write(root / "slim", documents=documents)
    words = ["data", "prepare", str(root / "slim"), "--out", str(root / "p"), "--length", "16"]
    assert main([*words, "--tokenizer", "byte", "--workers", "1", "--shard-bytes", "1"]) == 0
    return root / "p"


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A prepared text, another one, and a run that was stopped in its third step."""
    root = tmp_path_factory.mktemp("faults")
    # What lies between the ends is not seen at once: shards are small here.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "ENDS", 64)
        patch.setattr("cem_jax.runs.sampling.SAMPLE", 5)
        folder, other = prepare(root), prepare(root / "other", documents=31)
        at = small_run.SMALL.index("--tokenizer")
        small = [*small_run.SMALL[:at], *small_run.SMALL[at + 2 :], "--report", "valid"]
        line = ["train", "--data", str(folder), *small, "--out", str(root / "run")]
        assert stop_after(3, line, patch) == 130
    return root, folder, other


@pytest.fixture(autouse=True)
def as_it_was(begun, monkeypatch, tmp_path):
    """The folder is whole again after each test."""
    monkeypatch.setattr(shards, "ENDS", 64)
    kept = shutil.copytree(begun[1], tmp_path / "kept")
    yield
    shutil.rmtree(begun[1])
    shutil.copytree(kept, begun[1])


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def gone(folder, other):
    (folder / "valid-000006.arrayrecord").unlink()
    return "in which valid-000006.arrayrecord is missing or has another size than its"


def truncated(folder, other):
    path = folder / "train-000003.arrayrecord"
    path.write_bytes(path.read_bytes()[: 1 << 16])
    return "in which train-000003.arrayrecord is missing or has another size than its"


def flipped(folder, other):
    flip(folder / "train-000003.arrayrecord", 10)
    return "train-000003.arrayrecord, which cannot be read (Corrupted|train-000003.arrayrecord, who"


def replaced(folder, other):
    shutil.copy(other / "train-000003.arrayrecord", folder)
    return "train-000003.arrayrecord, which holds"


def manifest(folder, other):
    flip(folder / "manifest.json", 300)
    return "got a damaged file"


def tokenizer(folder, other):
    path = folder / "tokenizer" / "byte_tokenizer.json"
    path.write_text(path.read_text()[:-4])
    return "tokenizer"


def another(folder, other):
    shutil.rmtree(folder)
    shutil.copytree(other, folder)
    return "resume: got options that are not those of the run in this folder (corpus: "


FAULTS = [gone, truncated, flipped, replaced, manifest, tokenizer, another]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_run_goes_on_with_its_own_text_alone(fault, begun, capsys):
    root, folder, other = begun
    message = fault(folder, other)
    before = (root / "run" / "metrics.jsonl").read_bytes()
    assert main(["train", "--resume", "--out", str(root / "run")]) == 2
    error = capsys.readouterr().err
    assert any(part in error for part in message.split("|")), error
    assert "expected" in error
    assert (root / "run" / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize("fault", FAULTS[:-1], ids=lambda fault: fault.__name__)
def test_no_second_run_begins_on_a_damaged_text(fault, begun, capsys, tmp_path):
    _, folder, other = begun
    message = fault(folder, other)
    at = small_run.SMALL.index("--tokenizer")
    small = [*small_run.SMALL[:at], *small_run.SMALL[at + 2 :]]
    out = tmp_path / "run"
    assert main(["train", "--data", str(folder), *small, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert any(part in error for part in message.split("|")), error
    assert not out.exists()


@pytest.mark.slow
def test_a_row_that_is_damaged_stops_the_step_that_needs_it(begun, capsys):
    """It is found by its checksum, where nothing could be seen before."""
    root, folder, _ = begun
    for path in folder.glob("train-*"):
        # The rows, and not the index that follows, which is read at once; then comes padding.
        for at in range(200, path.read_bytes().index(bytes(500)) - 800, 50):
            flip(path, at)
    assert main(["train", "--resume", "--out", str(root / "run")]) == 2
    error = capsys.readouterr().err
    assert "arrayrecord, which cannot be read (Corrupted" in error
    assert "The batch of step 4 needs it." in error
