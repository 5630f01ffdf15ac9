"""Every notebook is its script, executed; and every script still runs."""

import importlib.util
import re
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SCRIPTS = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.py"))
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|Users|tmp|var|work|usr|opt)/")


@pytest.fixture(scope="module")
def build():
    """The command that writes the notebooks, as a module."""
    spec = importlib.util.spec_from_file_location("notebooks_build", NOTEBOOKS / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def paired(script):
    return nbformat.read(script.with_suffix(".ipynb"), as_version=4)


def sources(notebook):
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_six_pairs_and_nothing_else():
    assert [script.name[:2] for script in SCRIPTS] == ["01", "02", "03", "04", "05", "06"]
    found = {path.stem for path in NOTEBOOKS.glob("*.ipynb")}
    assert found == {script.stem for script in SCRIPTS}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_notebook_is_its_script(script):
    assert sources(paired(script)) == sources(jupytext.read(script, fmt="py:percent"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_notebook_was_executed_in_order_without_fault(script):
    cells = code_cells(paired(script))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    for output in outputs:
        assert output.output_type != "error"
        assert output.get("name") != "stderr", output.text


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_notebook_is_light_and_names_no_machine(script):
    text = script.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert len(text) < 400_000
    assert not MACHINE_PATH.search(text)


def test_the_notebook_of_the_experiment_has_its_present_results():
    """The committed runs grow; what was drawn from fewer of them is stale."""
    (script,) = (script for script in SCRIPTS if script.stem == "03_gaussian_processes")
    printed = "".join(
        output.text
        for cell in code_cells(paired(script))
        for output in cell.outputs
        if output.output_type == "stream"
    )
    results = NOTEBOOKS.parent / "experiments" / "gaussian_process" / "results"
    runs = [path.stem for path in results.glob("*-s[0-9]*.json")]
    models = {name.rpartition("-s")[0] for name in runs}
    assert f"{len(runs)} runs of {len(models)} models are finished" in printed


def test_equal_runs_give_equal_files(build):
    one = jupytext.reads("# %%\nprint(1)\n", fmt="py:percent")
    other = jupytext.reads("# %%\nprint(1)\n", fmt="py:percent")
    other.cells[0].metadata = {"execution": {"iopub.execute_input": "2026-01-01T00:00:00Z"}}
    other.metadata["language_info"] = {"version": "3.99"}
    assert one.cells[0].id != other.cells[0].id
    assert nbformat.writes(build.portable(one)) == nbformat.writes(build.portable(other))


def test_a_warning_fails_a_notebook(build, tmp_path):
    script = tmp_path / "warns.py"
    script.write_text("# %%\nimport warnings\n\nwarnings.warn('this is old')\n", encoding="utf-8")
    with pytest.raises(CellExecutionError, match="this is old"):
        build.executed(script, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_notebook_runs_from_any_folder(script, build, tmp_path, monkeypatch):
    # A reader's own compiler settings.
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    notebook = build.executed(script, tmp_path)
    assert len(code_cells(notebook)) == len(code_cells(paired(script)))
