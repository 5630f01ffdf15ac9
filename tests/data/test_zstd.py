"""Files that zstandard unpacks; one skip where it is not installed."""

import json

import pytest

from cem_jax.data import load_corpus
from cem_jax.data.reading import read

zstandard = pytest.importorskip("zstandard", reason="zstandard is not installed (extra zstd)")

TEXT = "some text, é\r\n".encode() + bytes(range(256))


def written(path, data):
    path.write_bytes(data)
    return path


def test_zstd_of_several_frames_is_read_whole(tmp_path, monkeypatch):
    # Blocks that end within frames, and frames that end within blocks.
    for block in (1, 7, 1 << 20):
        monkeypatch.setattr("cem_jax.data.reading.BLOCK", block)
        frames = [zstandard.compress(TEXT), zstandard.compress(b""), zstandard.compress(b"more")]
        skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
        path = written(tmp_path / "a.jsonl.zst", frames[0] + skippable + frames[1] + frames[2])
        assert read(path) == TEXT + b"more"


def test_broken_zstd_is_refused(tmp_path):
    whole = zstandard.compress(TEXT * 100)
    for data in (whole[:-3], whole + whole[:9], b"text" + whole):
        path = written(tmp_path / "a.jsonl.zst", data)
        with pytest.raises(ValueError, match=r"a\.jsonl\.zst, which is not whole zstd data"):
            read(path)


def test_lines_of_json_are_read_across_frames(tmp_path):
    texts = [f"text {number} é" for number in range(20)]
    data = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    frames = zstandard.compress(data[:300]) + zstandard.compress(data[300:])
    corpus = load_corpus(str(written(tmp_path / "a.jsonl.zst", frames)))
    assert (*corpus.train[:9], *corpus.valid, *corpus.train[9:], *corpus.test) == tuple(texts)
