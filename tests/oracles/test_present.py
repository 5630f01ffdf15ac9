"""Whether the independent implementations are there at all."""

import importlib.util
import os

import pytest


def test_oracles_are_installed():
    missing = [name for name in ("torch", "transformers") if not importlib.util.find_spec(name)]
    if missing and os.environ.get("CEM_REQUIRE_ORACLES") != "1":
        pytest.skip(f"no {' and no '.join(missing)}: no layer is compared with torch's own")
    assert not missing, f"CEM_REQUIRE_ORACLES=1, but missing: {missing}"
