"""No layer's output is written by hand: attention, custom rules and energy gradients live where
the design says, and nowhere else."""

import ast
from pathlib import Path

import pytest

import cem_jax
from cem_jax.evaluation.certificate import literalness
from cem_jax.evaluation.certificate.literalness import literalness_rows
from cem_jax.models import CEMLayer

ROOT = Path(cem_jax.__file__).parent

FORMS = {"softmax", "dot_product_attention", "custom_jvp", "custom_vjp"}
FORMS_LIVE_IN = ("ops/", "evaluation/", "models/llama.py", "inference/")
GRADIENTS = {"grad", "value_and_grad", "vjp"}
GRADIENTS_LIVE_IN = (
    "descent/",
    "training/",
    "evaluation/",
    "runs/trainable.py",
    "models/cost/activations.py",
    "ops/kernels/",
)
"""Of energies in the first only; training takes that of its loss, evaluation compares, the counts
see what a derivative keeps, and kernels of other libraries are asked for their backward pass."""


def _uses(source: str, names: set[str]) -> set[str]:
    """Names of the set that the code refers to; words in strings and comments do not count."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add(node.name.split(".")[-1])
    return found & names


def _strays(names: set[str], homes: tuple[str, ...]) -> dict[str, set[str]]:
    files = {path.relative_to(ROOT).as_posix(): path.read_text() for path in ROOT.rglob("*.py")}
    assert len(files) > 30
    elsewhere = {name: text for name, text in files.items() if not name.startswith(homes)}
    return {name: used for name, text in elsewhere.items() if (used := _uses(text, names))}


@pytest.mark.parametrize(
    ("names", "homes"), [(FORMS, FORMS_LIVE_IN), (GRADIENTS, GRADIENTS_LIVE_IN)]
)
def test_names_occur_only_where_they_live(names, homes):
    assert _strays(names, homes) == {}


@pytest.mark.parametrize(
    ("home", "name"),
    [
        ("ops/attention_reference.py", "softmax"),
        ("ops/attention_energy.py", "custom_jvp"),
        ("models/llama.py", "dot_product_attention"),
        ("descent/descend.py", "grad"),
    ],
)
def test_the_search_finds_what_is_there(home, name):
    assert _uses((ROOT / home).read_text(), {name}) == {name}


@pytest.mark.parametrize(
    "source",
    [
        "from jax.nn import softmax as s",
        "import jax\njax.nn.softmax(x)",
        "from jax import custom_jvp\n@custom_jvp\ndef f(x): ...",
        "f = jax.custom_vjp(g)",
    ],
)
def test_the_search_sees_every_way_of_naming(source):
    assert _uses(source, FORMS)


def test_the_layer_follows_another_energy_in_one_scan():
    assert [row.passed for row in literalness_rows()] == [True, True]


def test_a_layer_that_does_its_own_thing_is_refused(monkeypatch):
    call = CEMLayer.__call__
    monkeypatch.setattr(CEMLayer, "__call__", lambda self, h: 1.01 * call(self, h))
    assert not literalness_rows()[0].passed


def test_a_layer_with_another_number_of_steps_is_refused(monkeypatch):
    built = literalness._layer
    monkeypatch.setattr(literalness, "_layer", lambda energy, steps, *a: built(energy, 2, *a))
    assert [row.passed for row in literalness_rows()] == [False, False]
