import gzip
import lzma
import sys

import pytest

from cem_jax.data.reading import blocks, read

TEXT = "some text, é\r\n".encode() + bytes(range(256))


def written(path, data):
    path.write_bytes(data)
    return path


def test_a_plain_file_is_read_as_it_is(tmp_path):
    assert read(written(tmp_path / "any.suffix", TEXT)) == TEXT
    assert read(written(tmp_path / "none", b"")) == b""


def test_xz_of_several_streams_is_read_whole(tmp_path):
    data = lzma.compress(TEXT) + lzma.compress(b"more")
    assert read(written(tmp_path / "a.txt.xz", data)) == TEXT + b"more"
    assert read(written(tmp_path / "A.TXT.XZ", data)) == TEXT + b"more"


def test_gzip_of_several_members_is_read_whole(tmp_path):
    data = gzip.compress(TEXT) + gzip.compress(b"more")
    assert read(written(tmp_path / "a.txt.gz", data)) == TEXT + b"more"


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-9],
        lambda data: b"text" + data,
        lambda data: data[:12] + bytes(len(data) - 12),
    ],
)
def test_broken_gzip_is_refused(tmp_path, change):
    path = written(tmp_path / "a.txt.gz", change(gzip.compress(TEXT)))
    with pytest.raises(ValueError, match=r"a\.txt\.gz, which is not whole gzip data \(.+\), exp"):
        read(path)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.xz"])
def test_blocks_tell_how_far_they_are_in_the_file(tmp_path, monkeypatch, name):
    monkeypatch.setattr("cem_jax.data.reading.BLOCK", 100)
    pack = {"gz": gzip.compress, "xz": lzma.compress}.get(name.split(".")[-1], bytes)
    path, told = written(tmp_path / name, pack(TEXT * 50)), []
    assert b"".join(blocks(path, told.append)) == TEXT * 50
    assert min(told) >= 0
    assert sum(told) == path.stat().st_size


@pytest.mark.parametrize("change", [lambda data: data[:-9], lambda data: b"text" + data])
def test_broken_xz_is_refused(tmp_path, change):
    path = written(tmp_path / "a.txt.xz", change(lzma.compress(TEXT)))
    with pytest.raises(ValueError, match=r"a\.txt\.xz, which is not whole xz data \(.+\), exp"):
        read(path)


def test_without_zstandard_the_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = written(tmp_path / "a.jsonl.zst", b"\x28\xb5\x2f\xfd...")
    with pytest.raises(ValueError, match=r"a\.jsonl\.zst, .* pip install 'cem_jax\[zstd\]'"):
        read(path)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (gzip.compress(TEXT), "gzip data"),
        (lzma.compress(TEXT), "xz data"),
        (b"\x28\xb5\x2f\xfd\0", "zstd data"),
        (b"PK\x03\x04...", "a zip archive"),
        (b"PAR1...", "a parquet file"),
    ],
)
def test_packed_data_under_another_name_is_refused(tmp_path, data, kind):
    with pytest.raises(ValueError, match=rf"a\.txt, which holds {kind}, expected text"):
        read(written(tmp_path / "a.txt", data))


def test_what_cannot_be_read_says_why(tmp_path, monkeypatch):
    def denied(path, mode):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", denied)
    with pytest.raises(ValueError, match=r"a\.txt, which cannot be read \(Permission denied\)"):
        read(tmp_path / "a.txt")
