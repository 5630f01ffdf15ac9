"""One short run, trained once and read by the tests of all commands."""

import contextlib
import io
import json
from pathlib import Path
from typing import NamedTuple

import compiled
import pytest
import small_run

from cem_jax.cli.main import main


class Trained(NamedTuple):
    """A folder, what was printed, and what it holds."""

    path: Path
    text: Path
    printed: str
    config: dict
    summary: dict


@pytest.fixture(scope="package", autouse=True)
def _compiled_with_commands(tmp_path_factory):
    """Commands that train the same model compile it once, in this process or in their own."""
    folder = tmp_path_factory.mktemp("compiled")
    # Of a command only what is slow to compile: one that a test kills may leave half an entry.
    with pytest.MonkeyPatch.context() as patch, compiled.kept_in(folder):
        for name, value in compiled.settings(folder, seconds=0.1).items():
            patch.setenv(name.upper(), str(value))
        yield


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
