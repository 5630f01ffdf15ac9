"""The tokenizer that learns nothing: each byte is a piece."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from cem_jax.data.text import from_bytes, to_bytes
from cem_jax.data.tokenizer_files import BYTE_FILE, write_tokenizer
from cem_jax.data.vocabulary import require_pieces


class ByteTokenizer:
    """V = 258: the 256 bytes as they are numbered, BOS and EOS. Any bytes come back as they were.

    Attributes:
        vocab_size: V.
        bos: the piece that starts a document.
        eos: the piece that ends it.
    """

    vocab_size = 258
    bos = 256
    eos = 257

    def encode(self, text: str) -> list[int]:
        """The bytes of the text, without BOS and EOS."""
        return list(to_bytes(text))

    def decode(self, pieces: Sequence[int]) -> str:
        """The text of the pieces (`from_bytes`); BOS and EOS have none."""
        numbers = require_pieces(pieces, self.vocab_size)
        return from_bytes(bytes(number for number in numbers if number < self.bos))

    def document(self, text: str) -> list[int]:
        """BOS, the bytes, EOS: so that the first byte and the end are predicted."""
        return [self.bos, *to_bytes(text), self.eos]

    def content_hash(self) -> str:
        """SHA-256 of what `save` writes: all byte tokenizers are one."""
        return hashlib.sha256(DESCRIPTION).hexdigest()

    def save(self, folder: Path) -> None:
        """Write ``byte_tokenizer.json``, which `load_tokenizer` reads."""
        write_tokenizer(folder, BYTE_FILE, DESCRIPTION)

    @classmethod
    def load(cls, data: bytes) -> ByteTokenizer:
        """What `save` wrote."""
        if data != DESCRIPTION:
            raise ValueError(
                f"tokenizer: got {data[:80]!r}, expected {DESCRIPTION!r}; save it again."
            )
        return cls()


DESCRIPTION = json.dumps({"kind": "byte", "vocab_size": 258, "bos": 256, "eos": 257}).encode()
