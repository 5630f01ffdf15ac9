"""Text that may hold bytes that are not UTF-8: kept as Python's `surrogateescape` keeps them.

A byte b that belongs to no character is the lone surrogate U+DC00 + b, from U+DC80 to U+DCFF, so
that `to_bytes` gives back every byte of a file that `from_bytes` has read.
"""

from __future__ import annotations

import re


def from_bytes(data: bytes) -> str:
    """The text of the bytes; line endings and a byte order mark stay as they are."""
    return data.decode("utf-8", "surrogateescape")


def to_bytes(text: str) -> bytes:
    """The bytes that the text was read from.

    Raises:
        ValueError: the text has a surrogate that stands for no byte.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"text: got the surrogate U+{ord(text[error.start]):04X} at {error.start}, expected "
            f"characters, and U+DC80 to U+DCFF for bytes that are not UTF-8; remove it."
        ) from error


def printable(text: str) -> str:
    """The text with U+FFFD for each byte that is not UTF-8, which any UTF-8 stream takes."""
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)


def bytes_for_surrogates(text: str) -> str:
    r"""The text with the bytes of each surrogate that stands for no byte.

    JSON's ``\ud800`` is one: no character, and no byte of a file, but what the file says. One from
    U+DC80 to U+DCFF stays a byte: ``json.dumps`` writes the texts of `from_bytes` so.
    """
    if text.isascii():
        return text
    return STRAY.sub(lambda found: from_bytes(found[0].encode("utf-8", "surrogatepass")), text)


SURROGATE = re.compile("[\ud800-\udfff]")
STRAY = re.compile("[\ud800-\udc7f\udd00-\udfff]")
