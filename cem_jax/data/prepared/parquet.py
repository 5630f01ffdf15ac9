"""Parquet: documents of the column "text", streamed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cem_jax.data.json_lines import Document, domain_of
from cem_jax.data.reading import Advanced
from cem_jax.data.text import from_bytes

ROWS = 256
"""Rows that are decoded at a time."""


def parquet_documents(
    path: Path, advanced: Advanced
) -> Iterator[Document | tuple[int, ValueError]]:
    """The documents of a parquet file, and its rows that hold none.

    Columns: "text", and, where it is there, "meta" as a struct with "redpajama_set_name".

    Raises:
        ValueError: it cannot be read, or has no column of strings "text".
    """
    import pyarrow

    try:
        for number, text, meta in _rows(path, advanced):
            if text is None:
                yield number, _no_text(number, path)
            else:
                yield Document(from_bytes(text), domain_of(meta))
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(
            f"data: got {path}, which cannot be read as parquet ({error}), expected a whole "
            f"parquet file; copy or write it again."
        ) from error


def _rows(path: Path, advanced: Advanced) -> Iterator[tuple[int, bytes | None, Any]]:
    """Number from 1, text and meta of each row."""
    import pyarrow
    import pyarrow.parquet

    # Buffered: a row group is not read as a whole.
    with pyarrow.parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        names = file.schema_arrow.names
        _require_text(path, file.schema_arrow)
        columns = [name for name in ("text", "meta") if name in names]
        number, total, size = 0, file.metadata.num_rows, path.stat().st_size
        for batch in file.iter_batches(batch_size=ROWS, columns=columns):
            texts = batch.column("text").cast(pyarrow.large_binary()).to_pylist()
            metas = batch.column("meta").to_pylist() if "meta" in names else [None] * len(texts)
            for text, meta in zip(texts, metas, strict=True):
                number += 1
                yield number, text, meta
            before = number - len(texts)
            advanced(size * number // total - size * before // total)


def _no_text(number: int, path: Path) -> ValueError:
    return ValueError(
        f'data: got row {number} of {path} with no "text", expected a string in each row; fill it, '
        f"or remove the row."
    )


def _require_text(path: Path, schema: Any) -> None:
    import pyarrow

    kinds = {field.name: field.type for field in schema}
    kind = kinds.get("text")
    if kind not in (pyarrow.string(), pyarrow.large_string()):
        got = f"columns {', '.join(kinds)}" if kind is None else f'"text" of type {kind}'
        raise ValueError(
            f'data: got {path} with {got}, expected a column "text" of strings; rename what '
            f"holds the text."
        )
