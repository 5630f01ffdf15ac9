"""The file that a tokenizer is saved as: one of two, by which its kind is known."""

from __future__ import annotations

from pathlib import Path

MODEL_FILE = "tokenizer.model"
"""A sentencepiece model, which sentencepiece itself reads too."""

BYTE_FILE = "byte_tokenizer.json"
"""The vocabulary of the byte tokenizer, for who reads the folder without this library."""


def write_tokenizer(folder: Path, name: str, data: bytes) -> None:
    """Write the file, whole or not at all, and remove that of another kind."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{name}.part"
    draft.write_bytes(data)
    draft.replace(folder / name)
    for other in {MODEL_FILE, BYTE_FILE} - {name}:
        (folder / other).unlink(missing_ok=True)


def tokenizer_file(path: Path) -> Path:
    """The tokenizer's file in a folder, or the file itself.

    Raises:
        ValueError: there is none, or the folder has two.
    """
    if not path.is_dir():
        found = [path] if path.exists() else []
    else:
        found = [path / name for name in (MODEL_FILE, BYTE_FILE) if (path / name).is_file()]
    if len(found) != 1:
        raise ValueError(
            f"tokenizer: got {path} with {len(found)} tokenizers, expected a file, or a folder "
            f"that has one of {MODEL_FILE} and {BYTE_FILE}; give another path."
        )
    return found[0]
