"""Strict by default: types are checked, ranks are not promoted, warnings are errors.

The hook that checks types must be in place before `cem_jax` is imported, so this file installs it
first. Without beartype (the installed wheel alone) the same tests run with the hook off.
"""

import importlib.util
import os
import sys

# Before jax is imported. Tests compare bits and bytes on CPU, of programs that run once: the
# machine code's own optimisation, a third of the suite's time, changes neither.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import compiled
import jax
import jaxtyping
import numpy as np
import pytest

HOOKED = importlib.util.find_spec("beartype") is not None

if HOOKED:
    assert "cem_jax" not in sys.modules, "cem_jax was imported before its types could be checked"
    jaxtyping.install_import_hook("cem_jax", "beartype.beartype")

jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_report_header(config: pytest.Config) -> str:
    checked = "checked by beartype" if HOOKED else "not checked (no beartype)"
    return f"jax {jax.__version__}, {jax.device_count()} {jax.default_backend()}; types {checked}"


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory):
    """Each process of the session compiles a program once.

    Its cache begins empty, since a program out of another session was not compiled by this code.
    No other process writes to it, no command that a test starts either: entries are not written in
    one piece, and the warning of a broken one would be an error here.
    """
    with compiled.kept_in(tmp_path_factory.mktemp("compiled")):
        yield


@pytest.fixture(autouse=True)
def _fixed_seeds() -> None:
    np.random.seed(0)  # noqa: NPY002 - for code that draws from the global generator


@pytest.fixture
def key() -> jax.Array:
    """The one key of a test; split it, or use `cases.normal`."""
    return jax.random.key(0)


@pytest.fixture
def hook_off():
    """As callers run the package: our own messages answer, not beartype's."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture
def x64():
    """Float64 throughout the test; arrays made before it keep their dtype."""
    with jax.enable_x64(True):
        yield
