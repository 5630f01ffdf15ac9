"""What lies beside the arrays of a saved state, as JSON: shapes, checksums, identity, figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BESIDE = Path("metadata/metadata")
"""In the folder of a state; Orbax writes it."""


class DamagedError(ValueError):
    """A state that is not what was saved; the message says what is wrong with it."""


def beside(path: Path) -> dict[str, Any]:
    """What was written beside the arrays of a state: metadata, leaves, sums, identity.

    Args:
        path: the folder of the state.

    Raises:
        DamagedError: it is not there, or not what was written.
    """
    try:
        content: dict[str, Any] = json.loads((path / BESIDE).read_text(encoding="utf-8"))
        for key in ("metadata", "leaves"):
            content[key].items()
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise DamagedError(f"{BESIDE} cannot be read ({type(error).__name__}: {error})") from error
    return content
