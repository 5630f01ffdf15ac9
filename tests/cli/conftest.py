"""One short run, trained once and read by the tests of all commands."""

import contextlib
import io
import json
from pathlib import Path
from typing import NamedTuple

import jax
import pytest
import small_run
from jax.experimental.compilation_cache import compilation_cache

from cem_jax.cli.main import main


class Trained(NamedTuple):
    """A folder, what was printed, and what it holds."""

    path: Path
    text: Path
    printed: str
    config: dict
    summary: dict


@pytest.fixture(scope="package", autouse=True)
def _compiled_once(tmp_path_factory):
    """Commands that train the same model compile it once: in a cache that ends with the tests."""
    settings = {
        "jax_enable_compilation_cache": True,
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("compiled")),
        "jax_persistent_cache_min_compile_time_secs": 0.1,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            jax.config.update(name, value)
            patch.setenv(name.upper(), str(value))
        compilation_cache.reset_cache()
        yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture(scope="session")
def own_text(tmp_path_factory):
    return small_run.write_text(tmp_path_factory.mktemp("text") / "messages.txt")


@pytest.fixture(scope="session")
def trained(own_text):
    path, out = own_text.parent / "run", io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setattr("cem_jax.runs.sampling.SAMPLE", 5)
        assert main(small_run.arguments(own_text, path)) == 0
    config, summary = (json.loads((path / f"{n}.json").read_text()) for n in ("config", "summary"))
    return Trained(path, own_text, out.getvalue(), config, summary)
