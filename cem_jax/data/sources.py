"""Sources: where documents come from, by the name of a corpus or the path of files."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

from cem_jax.data.corpora import CORPORA, PERIOD, Corpus, builtin_corpus
from cem_jax.data.json_lines import BOM, json_document
from cem_jax.data.reading import read, unreadable
from cem_jax.data.splitting import split
from cem_jax.data.text import from_bytes
from cem_jax.ops.checks import nearest

SEPARATOR = "\x1e"
"""What separates the documents of a text file: ASCII's record separator, U+001E."""

JSONL = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".jsonl.zst")


def load_corpus(source: str) -> Corpus:
    """The documents of a source, split by rank (`Corpus.by_rank`).

    A source is one of:

    - the name of a built-in corpus (`CORPORA`), which goes before a file of that name;
    - a text file, or one that ends in ``.gz``, ``.xz`` or ``.zst``: one document, or those that
      U+001E separates;
    - a folder: its files ``*.txt`` and ``*.txt.xz``, at any depth, in sorted order;
    - a file ``.jsonl``, ``.jsonl.gz``, ``.jsonl.xz`` or ``.jsonl.zst``: a JSON object per line,
      whose "text" is a document.

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
            raise nothing_there(source)
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


def nothing_there(source: str) -> ValueError:
    """What to raise where a source is neither a corpus nor a path."""
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
                yield json_document(f"line {number} of {path}", line).text
    else:
        yield from from_bytes(read(path)).split(SEPARATOR)
