"""Sources: where documents come from, by the name of a corpus or the path of files."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

from cem_jax.data.corpora import CORPORA, PERIOD, Corpus, builtin_corpus
from cem_jax.data.reading import read, unreadable
from cem_jax.data.splitting import split
from cem_jax.data.text import bytes_for_surrogates, from_bytes
from cem_jax.ops.checks import nearest

SEPARATOR = "\x1e"
"""What separates the documents of a text file: ASCII's record separator, U+001E."""

JSONL = (".jsonl", ".jsonl.xz", ".jsonl.zst")

BOM = b"\xef\xbb\xbf"


def load_corpus(source: str) -> Corpus:
    """The documents of a source, split by rank (`Corpus.by_rank`).

    A source is one of:

    - the name of a built-in corpus (`CORPORA`), which goes before a file of that name;
    - a text file, or one that ends in ``.xz`` or ``.zst``: one document, or those that U+001E
      separates;
    - a folder: its files ``*.txt`` and ``*.txt.xz``, at any depth, in sorted order;
    - a file ``.jsonl``, ``.jsonl.xz`` or ``.jsonl.zst``: a JSON object per line, whose "text" is
      a document.

    Bytes that are not UTF-8 are kept (`cem_jax.data.text`), and so are line ends and a byte order
    mark. Documents without text are left out. Fewer than twenty are cut in pieces (`split`).

    Raises:
        ValueError: there is nothing to read, it cannot be read, or it has too little text.
    """
    if source in CORPORA:
        return builtin_corpus(source)
    # Not Path.expanduser: it raises where there is no such user.
    path = Path(os.path.expanduser(source))
    try:
        if not source or not path.exists():
            raise _nothing_there(source)
        documents = [text for file in _files(path) for text in _documents(file) if text]
    except OSError as error:
        raise unreadable(path, error) from error
    if all(text.isspace() for text in documents):
        raise ValueError(f"data: got {source}, which has no text, expected some; give another.")
    if len(documents) < PERIOD:
        documents = split(documents)
    if len(documents) < PERIOD:
        raise ValueError(
            f"data: got {source}, a text of {len(documents)} characters, expected at least "
            f"{PERIOD}, to hold some out; give more text."
        )
    return Corpus.by_rank(source, documents)


def _nothing_there(source: str) -> ValueError:
    hint = "" if os.sep in source else nearest(source.lower(), CORPORA)
    return ValueError(
        f"data: got {source!r}, where there is nothing, expected the path of a text file, a "
        f"folder or a .jsonl file, or one of the built-in corpora: {', '.join(CORPORA)}.{hint}"
    )


def _files(path: Path) -> list[Path]:
    """The file, or the text files of the folder."""
    if not path.is_dir():
        return [path]
    files = [file for name in ("*.txt", "*.txt.xz") for file in path.rglob(name) if file.is_file()]
    if files:
        return sorted(files)
    other = next((file for file in sorted(path.rglob("*")) if file.name.endswith(JSONL)), None)
    advice = "give another folder" if other is None else f"give one file, such as {other}"
    raise ValueError(f"data: got the folder {path}, expected *.txt or *.txt.xz in it; {advice}.")


def _documents(path: Path) -> Iterator[str]:
    if path.name.lower().endswith(JSONL):
        lines = io.BytesIO(read(path).removeprefix(BOM))
        for number, line in enumerate(lines, 1):
            if not line.isspace():
                yield _json_text(f"line {number} of {path}", line)
    else:
        yield from from_bytes(read(path)).split(SEPARATOR)


def _json_text(where: str, line: bytes) -> str:
    """The text of one line of JSON."""
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
        return bytes_for_surrogates(text)
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
