"""Large text: prepared, looked into, and trained on."""

import json
import resource

import numpy as np
import pytest
import slimpajama
import small_run

import cem_jax.data.prepared
from cem_jax.cli import data_progress
from cem_jax.cli.main import main
from cem_jax.data import CORPORA, Corpus, PreparedCorpus

pytest.importorskip("zstandard", reason="zstandard is not installed (extra zstd)")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    slimpajama.write(folder / "slim")
    out = folder / "prepared"
    assert main(words(folder / "slim", out, "--domains", "RedPajamaBook", "RedPajamaC4")) == 0
    return out


def words(source, out, *more):
    where = ["--out", str(out), "--length", "16", "--tokenizer", "byte", "--workers", "1"]
    return ["data", "prepare", str(source), *where, *more]


def said(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_help_teaches(capsys):
    for command, options in (
        ("prepare", ("--domains", "--packing {concat-split,best-fit}", "the same line goes on")),
        ("inspect", ("--verify", "--rows", "counts by split and domain")),
    ):
        with pytest.raises(SystemExit):
            main(["data", command, "--help"])
        text = said(capsys)
        assert all(option in text for option in options)


def test_where_the_disk_takes_no_more_the_same_line_goes_on(tmp_path, capsys):
    """A limit of the size of files stands for the disk: a shard cannot be written to its end."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    slimpajama.write(tmp_path / "slim")
    line = words(tmp_path / "slim", out := tmp_path / "p")
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
    try:
        status = main(line)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert status == 1
    error = capsys.readouterr().err
    assert "cannot be written" in error
    assert f"with room and rights to write {out}, the same line goes on" in error
    assert main(line) == 0
    assert len(PreparedCorpus.open(out).rows("train")) > 0


def test_what_was_made_and_what_to_do_with_it(tmp_path, capsys):
    slimpajama.write(tmp_path / "slim", broken=True)
    out = tmp_path / "p"
    assert main(words(tmp_path / "slim", out)) == 2
    assert "got line 5 of train/chunk1/example_train_14.jsonl.zst" in capsys.readouterr().err
    assert main(words(tmp_path / "slim", out, "--on-error", "skip")) == 0
    text = said(capsys)
    assert "180 documents" in text
    assert "1 lines and 0 files were broken and skipped" in text
    assert f"cem train --data {out} --length 16" in text


def test_inspect_shows_counts_and_rows_as_text(prepared, capsys):
    assert main(["data", "inspect", str(prepared), "--rows", "9", "--split", "valid"]) == 0
    text = said(capsys)
    corpus = PreparedCorpus.open(prepared)
    for split in ("train", "valid", "test"):
        total = corpus.manifest.tally.total(split)
        assert f"{split} all {total.documents} " in text
        assert f" {total.targets:,} {len(corpus.rows(split)):,} " in text
    assert (
        f"RedPajamaBook {corpus.manifest.tally.taken['train']['RedPajamaBook'].documents} " in text
    )
    assert "domains left out: RedPajamaWikipedia (" in text
    rows = corpus.rows("valid")
    for number in np.linspace(0, len(rows) - 1, 9).astype(int).tolist():
        packed = rows.packed([number])
        assert f"valid row {number:,} of {len(rows):,}: [1] " in text
        for label in range(1, packed.segment.max() + 1):
            pieces = packed.tokens[packed.segment == label].tolist()
            shown = " ".join(repr(corpus.tokenizer.decode(pieces)).split())
            assert f"[{label}] {len(pieces)} pieces: {shown}" in text


def test_more_rows_than_there_are_show_all(prepared, capsys):
    assert main(["data", "inspect", str(prepared), "--rows", str(10**15), "--split", "valid"]) == 0
    rows = len(PreparedCorpus.open(prepared).rows("valid"))
    assert said(capsys).count(f" of {rows:,}: [1]") == rows


def test_inspect_can_read_all_rows_again(prepared, capsys, tmp_path):
    assert main(["data", "inspect", str(prepared), "--verify"]) == 0
    assert "all 3 shards hold the rows that were written" in said(capsys)
    manifest = prepared / "manifest.json"
    before = manifest.read_text()
    content = json.loads(before)
    content["shards"][1]["sha256"] = "0" * 64
    # As in folders of versions without one.
    del content["checksum"]
    try:
        manifest.write_text(json.dumps(content))
        assert main(["data", "inspect", str(prepared), "--verify"]) == 2
    finally:
        manifest.write_text(before)
    assert f"{content['shards'][1]['name']} with other rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prepare", "missing", "--out", "out"], "where there is nothing"),
        (["prepare", ".", "--out", "out", "--length", "0"], "length: got 0"),
        (
            ["prepare", ".", "--out", "out", "--length", "1000000000"],
            "length: got 1,000,000,000 tokens in a row, expected at most 16,777,216",
        ),
        (["prepare", ".", "--out", "out", "--workers", "0"], "workers: got 0"),
        (["prepare", ".", "--out", "out", "--tokenizer", "trian:512"], "Did you mean train:512?"),
        (["prepare", ".", "--out", "file"], "out: got file, which is a file"),
        (["prepare", ".", "--out", "file/out"], "out: got file/out, which cannot be made"),
        (["inspect", "missing"], "missing, where nothing was prepared"),
        (["inspect", ".", "--split", "all"], "split: got 'all'"),
        (["inspect", ".", "--rows", "-1"], "rows: got -1"),
    ],
)
def test_impossible_values_leave_nothing_behind(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "a.txt").write_text("text")
    assert main(["data", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_domains_are_shown_as_they_are_called(tmp_path, capsys):
    names = ("[/red]", "[bold]b")
    records = [
        {"text": f"text {n} of some words " * 9, "meta": {"redpajama_set_name": names[n % 2]}}
        for n in range(120)
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "a.jsonl").write_text(lines, encoding="utf-8")
    assert main(words(tmp_path / "a.jsonl", tmp_path / "my out")) == 0
    assert f"cem data inspect '{tmp_path / 'my out'}'" in said(capsys)
    assert main(["data", "inspect", str(tmp_path / "my out")]) == 0
    shown = said(capsys)
    assert all(f" {name} " in shown for name in names)


def test_two_processes_never_prepare_into_one_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    slimpajama.write(tmp_path / "slim")
    out = tmp_path / "out"

    def beside(*arguments, **options):
        """What another process meets while this one is at work."""
        before = sorted(out.iterdir())
        exists = type(out).exists
        # It may have looked before this one had made the folder.
        with monkeypatch.context() as patch:
            patch.setattr(type(out), "exists", lambda path: path != out and exists(path))
            assert main(words(tmp_path / "slim", out)) == 2
        assert "in which another process works" in capsys.readouterr().err
        assert sorted(out.iterdir()) == before == [out / ".lock"]
        return prepare(*arguments, **options)

    prepare = cem_jax.data.prepared.prepare
    with monkeypatch.context() as patch:
        patch.setattr(cem_jax.data.prepared, "prepare", beside)
        assert main(words(tmp_path / "slim", out)) == 0
    assert main(words(tmp_path / "slim", out)) == 0


def test_bytes_their_rate_and_the_time_left():
    assert data_progress.line(0, 10, 5.0) == ("0.0 of 0.0 MB read, 0.00 MB/s, nothing read yet")
    assert data_progress.line(30_000_000, 1_230_000_000, 10.0) == (
        "30.0 of 1,230.0 MB read, 3.00 MB/s, about 7 minutes left"
    )


def test_a_log_is_told_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(data_progress, "EVERY", 0.0)
    with data_progress.Progress() as progress:
        progress.told(1_000_000, 2_000_000)
    assert "1.0 of 2.0 MB read" in capsys.readouterr().err


def lines(path):
    return [
        {key: value for key, value in json.loads(line).items() if key != "seconds"}
        for line in (path / "metrics.jsonl").read_text().splitlines()
    ]


@pytest.mark.slow
def test_training_on_it_is_training_on_the_text(tmp_path, monkeypatch, capsys):
    texts = [f"Message {n}: the union is {'very ' * (n % 5)}strong.\n" * 9 for n in range(40)]
    monkeypatch.setitem(CORPORA, "messages", lambda: Corpus.by_rank("messages", texts))
    monkeypatch.setattr("cem_jax.runs.sampling.SAMPLE", 3)
    folder = tmp_path / "prepared"
    assert main(words("messages", folder, "--tokenizer", "train:330")) == 0
    runs = []
    for source in ("messages", str(folder)):
        runs.append(tmp_path / f"run {len(runs)}")
        assert main(small_run.arguments(source, runs[-1], "--report", "test")) == 0
    assert lines(runs[0]) == lines(runs[1])
    first, second = (json.loads((run / "summary.json").read_text()) for run in runs)
    for key in ("valid_loss", "test_loss", "valid_bits_per_byte", "test_bits_per_byte", "sample"):
        assert first[key] == second[key]
    capsys.readouterr()
    assert main(["evaluate", str(runs[1])]) == 0
    assert "Equal to summary.json, to the last digit" in said(capsys)


@pytest.mark.slow
def test_its_own_tokenizer_is_the_default_and_others_are_refused(prepared, tmp_path, capsys):
    at = small_run.SMALL.index("--tokenizer")
    small = [*small_run.SMALL[:at], *small_run.SMALL[at + 2 :]]
    run = ["train", "--data", str(prepared), *small, "--report", "valid"]
    for number, (more, message) in enumerate(
        (
            (["--length", "32"], "prepared for rows of length 16, expected 32; give --length 16"),
            (["--tokenizer", "train:330"], "which was prepared with byte, expected its own"),
        )
    ):
        assert main([*run, "--out", str(tmp_path / str(number)), *more]) == 2
        assert message in capsys.readouterr().err
    assert main([*run, "--out", str(tmp_path / "run"), "--steps", "2"]) == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["config"]["data"]["tokenizer"] == str(prepared / "tokenizer")
    assert config["config"]["model"]["vocab_size"] == 258
