"""Lines of JSON: a document each, and the domain that it is of."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from cem_jax.data.text import bytes_for_surrogates, from_bytes

BOM = b"\xef\xbb\xbf"

NO_DOMAIN = "none"
"""The domain of documents that name none."""


class Document(NamedTuple):
    """A text and where it comes from, such as ``RedPajamaWikipedia``."""

    text: str
    domain: str = NO_DOMAIN


def json_document(where: str, line: bytes) -> Document:
    """The document of one line of JSON: its "text", and "redpajama_set_name" in its "meta".

    Raises:
        ValueError: it is no JSON object, or has no such text; the message begins with ``where``.
    """
    try:
        record = json.loads(from_bytes(line))
    # Not only what json raises: numbers may be too long, and lists too deep.
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"data: got {where}, which is not JSON ({error}), expected an object on each line; "
            f"repair the line, or remove it."
        ) from error
    text = record.get("text") if isinstance(record, dict) else None
    if isinstance(text, str):
        return Document(bytes_for_surrogates(text), domain_of(record.get("meta")))
    if not isinstance(record, dict):
        got = f"a {type(record).__name__}"
    elif "text" in record:
        got = f'"text" of type {type(text).__name__}'
    else:
        got = f"an object with {', '.join(map(json.dumps, record)) or 'nothing'}"
    raise ValueError(
        f'data: got {where} with {got}, expected an object whose "text" is a string; rename what '
        f"holds the text."
    )


def domain_of(meta: Any) -> str:
    """The domain that SlimPajama's "meta" names."""
    domain = meta.get("redpajama_set_name") if isinstance(meta, dict) else None
    return domain if isinstance(domain, str) else NO_DOMAIN
