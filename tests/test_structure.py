"""The house rules that a reader would not notice being broken."""

import ast
import inspect
import pathlib
import subprocess
import sys

import pytest

import cem_jax

ROOT = pathlib.Path(inspect.getfile(cem_jax)).parent
FILES = sorted(ROOT.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}

# Each level may import itself's own package and the levels below, never a sibling.
LEVELS = [
    {"cli"},
    {"runs"},
    {"training", "inference", "evaluation"},
    {"models", "data", "sharding"},
    {"energies", "descent"},
    {"ops"},
]
LEVEL = {name: depth for depth, names in enumerate(LEVELS) for name in names}

over_files = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))


def imports(tree: ast.AST) -> list[str]:
    """The dotted name of every import below a node, wherever it stands."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def package(path: pathlib.Path) -> str:
    return path.relative_to(ROOT).parts[0]


@over_files
def test_imports_point_downwards(path):
    names = imports(TREES[path])
    foreign = [
        name for name in names if name.split(".")[0] in ("tests", "experiments", "notebooks")
    ]
    assert not foreign
    if path.parent == ROOT:
        return
    own = package(path)
    assert own in LEVEL, f"{own}: a package without a level"
    for name in names:
        if name.startswith("cem_jax."):
            other = name.split(".")[1]
            # The version is a constant of the root; all else comes from a level.
            if other == "__version__":
                continue
            assert other in LEVEL, f"{path.name} imports {name} through the package's root"
            assert other == own or LEVEL[other] > LEVEL[own], f"{own} imports {other}"


@over_files
def test_grain_and_other_heavy_packages_are_imported_lazily(path):
    own = package(path)
    at_import = [name.split(".")[0] for node in TREES[path].body for name in _eager(node)]
    lazy = {"grain", "torch", "transformers", "matplotlib", "sentencepiece", "safetensors"}
    lazy |= {"zstandard", "pyarrow", "array_record", "docstring_parser", "tensorboardX", "wandb"}
    lazy |= {"tyro"} if own != "cli" else set()
    assert not lazy & set(at_import)


def _eager(node: ast.stmt) -> list[str]:
    """What a module-level statement imports when the module is."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef) or _type_checking(node):
        return []
    return imports(node)


def _type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def test_import_needs_and_loads_none_of_the_heavy_packages():
    heavy = (
        "grain",
        "tyro",
        "torch",
        "matplotlib",
        "orbax",
        "transformers",
        "sentencepiece",
        "safetensors",
    )
    program = f"import sys, cem_jax; print([m for m in {heavy!r} if m in sys.modules])"
    # Own search path first: the package under test, installed or not.
    program = f"import sys; sys.path.insert(0, {str(ROOT.parent)!r}); {program}"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


@over_files
def test_no_file_is_above_300_lines(path):
    assert len(path.read_text().splitlines()) <= 300


@over_files
def test_everything_public_has_a_docstring(path):
    assert ast.get_docstring(TREES[path]), "module"
    for node, parents in _definitions(TREES[path]):
        if not any(name.startswith("_") for name in (node.name, *parents)):
            assert ast.get_docstring(node), ".".join((*parents, node.name))


def _definitions(tree: ast.AST, parents: tuple[str, ...] = ()):
    """Public classes, functions and methods, not those inside functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, parents
        elif isinstance(node, ast.ClassDef):
            yield node, parents
            yield from _definitions(node, (*parents, node.name))


@over_files
def test_nothing_happens_at_import(path):
    allowed = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)
    for node in TREES[path].body:
        if isinstance(node, allowed) or _type_checking(node) or _main(node) or _text(node):
            continue
        assert isinstance(node, ast.Assign | ast.AnnAssign), ast.unparse(node)
        touched = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
        for call in touched:
            name = ast.unparse(call.func).split(".")
            library = name[0] in ("jax", "jnp", "nnx", "optax")
            assert not library, ast.unparse(node)
            # Own functions and records may build tables; opening, reading and running may not.
            assert name[-1] not in ("open", "read", "run", "update", "mkdir"), ast.unparse(node)


def _main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
