"""Reading: a file's bytes in blocks, unpacked where its name says that they are packed."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

BLOCK = 1 << 17
"""The bytes that are taken at a time; what a packed block unpacks to is in memory at once."""

PACKED = {
    b"\xfd7zXZ\0": "xz data",
    b"\x28\xb5\x2f\xfd": "zstd data",
    b"\x1f\x8b\x08": "gzip data",
    b"PK\x03\x04": "a zip archive",
    b"PAR1": "a parquet file",
}
"""How files start whose bytes nobody means to learn."""


Advanced = Callable[[int], None]
"""Is told of bytes of a file that have been read, as they lie on disk."""


def read(path: Path) -> bytes:
    """The bytes of the file, unpacked if it ends in ``.gz``, ``.xz`` or ``.zst``.

    Raises:
        ValueError: it cannot be read or unpacked, or holds packed data under another name.
    """
    return b"".join(blocks(path))


def blocks(path: Path, advanced: Advanced | None = None) -> Iterator[bytes]:
    """The same, in blocks: the file is never in memory as a whole.

    Args:
        path: of the file.
        advanced: is told of each block, how many bytes of the file it took.

    Raises:
        ValueError: as `read`, where it comes to that.
    """
    try:
        with path.open("rb") as file:
            before = 0
            for block in _unpacked(path, file):
                # A pipe has no position.
                if advanced is not None:
                    position = file.tell()
                    advanced(position - before)
                    before = position
                yield block
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> ValueError:
    """What to raise where the system does not let us read."""
    return ValueError(
        f"data: got {path}, which cannot be read ({error.strerror}), expected a file or a folder "
        f"that can; look at its name and its permissions."
    )


def _unpacked(path: Path, file: io.BufferedReader) -> Iterator[bytes]:
    head = file.peek(8)
    suffix = path.suffix.lower()
    if not head or suffix not in UNPACK:
        _require_unpacked(path, head)
        return iter(lambda: file.read(BLOCK), b"")
    return UNPACK[suffix](path, file)


def _gzip(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    import gzip

    try:
        with gzip.GzipFile(fileobj=file) as stream:
            yield from iter(lambda: stream.read(BLOCK), b"")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _corrupt(path, "gzip", error) from error


def _xz(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    # Imported here: Python can be built without it.
    import lzma

    try:
        with lzma.LZMAFile(file) as stream:
            yield from iter(lambda: stream.read(BLOCK), b"")
    except (EOFError, lzma.LZMAError) as error:
        raise _corrupt(path, "xz", error) from error


def _zstd(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    """Frame by frame: files of several are common, and zstandard takes a cut one for complete."""
    zstandard = require_zstandard(path)
    # The largest window of the format: --long=31 writes it.
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    frame = None
    try:
        while block := file.read(BLOCK):
            while block:
                frame = frame or decompressor.decompressobj()
                yield frame.decompress(block)
                if not frame.eof:
                    break
                block, frame = frame.unused_data, None
    except zstandard.ZstdError as error:
        raise _corrupt(path, "zstd", error) from error
    if frame is not None:
        raise _corrupt(path, "zstd", "it ends within a frame")


def require_zstandard(path: Path) -> Any:
    """The package that reads ``.zst``.

    Raises:
        ValueError: it is not installed.
    """
    try:
        import zstandard
    except ImportError as error:
        raise ValueError(
            f"data: got {path}, expected the package zstandard to read it with; run pip install "
            f"'cem_jax[zstd]', or unpack the file."
        ) from error
    return zstandard


UNPACK = {".gz": _gzip, ".xz": _xz, ".zst": _zstd}
"""How files are unpacked, by the end of their names."""


def _corrupt(path: Path, kind: str, why: object) -> ValueError:
    return ValueError(
        f"data: got {path}, which is not whole {kind} data ({why}), expected what {kind} writes; "
        f"copy or pack the file again."
    )


def _require_unpacked(path: Path, head: bytes) -> None:
    for start, kind in PACKED.items():
        if head.startswith(start):
            raise ValueError(
                f"data: got {path}, which holds {kind}, expected text, or a name that ends in "
                f".gz, .xz or .zst for what is packed so; unpack the file, or give it its name."
            )
