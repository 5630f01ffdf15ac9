"""Reading: a file's bytes, unpacked where its name says that they are packed."""

from __future__ import annotations

from pathlib import Path

BLOCK = 1 << 20
"""The bytes that zstandard takes at a time: what follows a frame is copied, so not the whole."""

PACKED = {
    b"\xfd7zXZ\0": "xz data",
    b"\x28\xb5\x2f\xfd": "zstd data",
    b"\x1f\x8b\x08": "gzip data",
    b"PK\x03\x04": "a zip archive",
    b"PAR1": "a parquet file",
}
"""How files start whose bytes nobody means to learn."""


def read(path: Path) -> bytes:
    """The bytes of the file, unpacked if it ends in ``.xz`` or ``.zst``.

    Raises:
        ValueError: it cannot be read or unpacked, or holds packed data under another name.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    suffix = path.suffix.lower()
    if not data or suffix not in (".xz", ".zst"):
        _require_unpacked(path, data)
        return data
    return _unxz(path, data) if suffix == ".xz" else _unzstd(path, data)


def unreadable(path: Path, error: OSError) -> ValueError:
    """What to raise where the system does not let us read."""
    return ValueError(
        f"data: got {path}, which cannot be read ({error.strerror}), expected a file or a folder "
        f"that can; look at its name and its permissions."
    )


def _unxz(path: Path, data: bytes) -> bytes:
    # Imported here: Python can be built without it.
    import lzma

    try:
        return lzma.decompress(data)
    except lzma.LZMAError as error:
        raise _corrupt(path, "xz", error) from error


def _unzstd(path: Path, data: bytes) -> bytes:
    """Frame by frame: files of several are common, and zstandard takes a cut one for complete."""
    try:
        import zstandard
    except ImportError as error:
        raise ValueError(
            f"data: got {path}, expected the package zstandard to read it with; run pip install "
            f"'cem_jax[zstd]', or unpack the file."
        ) from error
    # The largest window of the format: --long=31 writes it.
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    parts, frame = [], None
    try:
        for start in range(0, len(data), BLOCK):
            block = data[start : start + BLOCK]
            while block:
                frame = frame or decompressor.decompressobj()
                parts.append(frame.decompress(block))
                if not frame.eof:
                    break
                block, frame = frame.unused_data, None
    except zstandard.ZstdError as error:
        raise _corrupt(path, "zstd", error) from error
    if frame is not None:
        raise _corrupt(path, "zstd", "it ends within a frame")
    return b"".join(parts)


def _corrupt(path: Path, kind: str, why: object) -> ValueError:
    return ValueError(
        f"data: got {path}, which is not whole {kind} data ({why}), expected what {kind} writes; "
        f"copy or pack the file again."
    )


def _require_unpacked(path: Path, data: bytes) -> None:
    for start, kind in PACKED.items():
        if data.startswith(start):
            raise ValueError(
                f"data: got {path}, which holds {kind}, expected text, or a name that ends in .xz "
                f"or .zst for what is packed so; unpack the file, or give it its name."
            )
