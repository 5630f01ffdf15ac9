"""Every documented example runs and holds what it asserts; every link and test name exists."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def run(code, folder):
    # A reader's own interpreter and compiler settings; warnings are errors there too.
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    environment.pop("XLA_FLAGS", None)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_examples_run_as_written(tmp_path):
    assert len(BLOCKS) == 4
    # A block that names a file is that file; the blocks after it may read it.
    for block in BLOCKS:
        name = re.match(r"# (\w+\.py)\n", block)
        if name:
            (tmp_path / name[1]).write_text(block, encoding="utf-8")
        else:
            run(block, tmp_path)


def test_the_example_energy_is_certified_and_short(tmp_path):
    (source,) = (block for block in BLOCKS if block.startswith("# pull.py"))
    lines = [line for line in source.splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) <= 30
    (tmp_path / "pull.py").write_text(source, encoding="utf-8")
    code = "import sys; from cem_jax.cli.main import main; sys.exit(main(sys.argv[1:] or {}))"
    run(code.format(["verify", "--attention", "pull.py:Pull"]), tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nothing_is_left_to_fill_in(page):
    assert not re.search(r"@@|TODO|TBD", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def names_in(path):
    """Everything defined in a file, methods by their dotted names."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (item for item in node.body if isinstance(item, ast.FunctionDef))
            names |= {f"{node.name}.{method.name}" for method in methods}
    return names


def test_every_equation_names_functions_and_tests_that_exist():
    page = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| (")]
    numbers = {"5b", *map(str, range(1, 10))}
    assert {row[0].strip() for row in rows} == {f"({number})" for number in numbers}
    for row in rows:
        functions, tests = (re.findall(r"\[`([\w.]+)`\]\(([^)]+)\)", cell) for cell in row[2:4])
        assert functions, row
        assert tests, row
        for name, target in functions + tests:
            path = (ROOT / "docs" / target).resolve()
            assert name in names_in(path), f"{name} is not in {target}"
