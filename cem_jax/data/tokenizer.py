"""Tokenizers: what the rest of the library knows of one, and how one is asked for."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from cem_jax.data.byte_tokenizer import ByteTokenizer
from cem_jax.data.sentencepiece_tokenizer import SentencePieceTokenizer
from cem_jax.data.tokenizer_files import BYTE_FILE, tokenizer_file
from cem_jax.data.tokenizer_training import train_tokenizer
from cem_jax.data.vocabulary import require_vocabulary

BYTE, TRAIN = "byte", "train:"


@runtime_checkable
class Tokenizer(Protocol):
    """Text to pieces and back, without loss: `ByteTokenizer` and `SentencePieceTokenizer` are."""

    @property
    def vocab_size(self) -> int:
        """V."""

    @property
    def bos(self) -> int:
        """The piece that starts a document."""

    @property
    def eos(self) -> int:
        """The piece that ends it."""

    def encode(self, text: str) -> list[int]:
        """The pieces of the text, without BOS and EOS."""

    def decode(self, pieces: Sequence[int]) -> str:
        """The text of any pieces of the vocabulary; BOS and EOS have none."""

    def document(self, text: str) -> list[int]:
        """BOS, the pieces, EOS."""

    def content_hash(self) -> str:
        """A name that differs where the pieces do."""

    def save(self, folder: Path) -> None:
        """Write what `load_tokenizer` reads; another tokenizer in the folder is replaced."""


def check_spec(spec: str) -> int:
    """V of the tokenizer that `make_tokenizer` would make, or what is wrong with the spec.

    Raises:
        ValueError: the spec is none, or its file holds no tokenizer.
    """
    if spec == BYTE:
        return ByteTokenizer.vocab_size
    if spec.startswith(TRAIN):
        return _vocabulary(spec)
    return _from_path(spec).vocab_size


def is_by_path(spec: str) -> bool:
    """Whether a spec is the path of a tokenizer that is there already."""
    return spec != BYTE and not spec.startswith(TRAIN)


def tokenizer_identity(spec: str) -> str:
    """A tokenizer by what it is, wherever it lies; one to be trained by how.

    Raises:
        ValueError: as `check_spec` does.
    """
    check_spec(spec)
    return _from_path(spec).content_hash() if is_by_path(spec) else spec


def make_tokenizer(spec: str, documents: Iterable[str]) -> Tokenizer:
    """The tokenizer of a spec.

    Args:
        spec: ``byte`` (`ByteTokenizer`), ``train:VOCAB`` (`train_tokenizer`), or the path of a
            sentencepiece model or of a folder that a tokenizer was saved in.
        documents: the train split, which only ``train:`` looks at.

    Raises:
        ValueError: as `check_spec` does, or the documents cannot fill the vocabulary.
    """
    if spec == BYTE:
        return ByteTokenizer()
    if spec.startswith(TRAIN):
        return train_tokenizer(documents, _vocabulary(spec))
    return _from_path(spec)


def load_tokenizer(path: Path | str) -> Tokenizer:
    """A tokenizer from the folder that it was saved in, or from its file.

    Raises:
        ValueError: there is none, or one that could lose text.
    """
    file = tokenizer_file(Path(path))
    try:
        data = file.read_bytes()
        return ByteTokenizer.load(data) if file.name == BYTE_FILE else SentencePieceTokenizer(data)
    except OSError as error:
        raise ValueError(
            f"tokenizer: got {file}, which cannot be read ({error.strerror}), expected a file "
            f"that can; look at its permissions."
        ) from error
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def _vocabulary(spec: str) -> int:
    number = spec.removeprefix(TRAIN)
    if not (number.isascii() and number.isdigit()):
        raise ValueError(
            f"tokenizer: got {spec!r}, expected a whole number of pieces after {TRAIN}, such as "
            f"train:2048."
        )
    try:
        # A number of very many digits is one that int does not take.
        require_vocabulary(int(number))
    except ValueError as error:
        raise ValueError(f"tokenizer {spec[:40]!r}: {error}") from error
    return int(number)


def _from_path(spec: str) -> Tokenizer:
    # os.path and not pathlib, which raises for names that no file can have.
    path = os.path.expanduser(spec)
    if os.path.exists(path):
        return load_tokenizer(path)
    kind, colon, number = spec.partition(":")
    close = difflib.get_close_matches(kind.lower() + colon, [BYTE, TRAIN], n=1)
    example = TRAIN + (number if number.isdigit() else "2048")
    nearest = f" Did you mean {BYTE if close[0] == BYTE else example}?" if close else ""
    raise ValueError(
        f"tokenizer: got {spec!r}, where there is nothing, expected {BYTE}, train:VOCAB (such as "
        f"train:2048), or the path of a sentencepiece model.{nearest}"
    )
