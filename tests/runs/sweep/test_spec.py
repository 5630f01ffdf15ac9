"""Sweeps as files: what they describe, and what is refused."""

import pytest

from cem_jax.runs.sweep.spec import Variant, read_spec

WHOLE = """
seeds = [3, 1]
baseline = "b,learning-rate=0.2"
[options]
steps = 5
model.layers = 2
[grid]
"optimiser.learning-rate" = [0.1, 0.2]
[[variants]]
name = "a"
steps = 7
"model.attention.energy.learn_temperature" = true
[[variants]]
name = "b"
tie = false
"""


def read(tmp_path, text):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    return read_spec(path)


def test_every_variant_is_run_at_every_point_of_the_grid(tmp_path):
    spec = read(tmp_path, WHOLE)
    assert spec.seeds == (3, 1)
    assert spec.baseline == "b,learning-rate=0.2"
    assert [variant.name for variant in spec.variants] == [
        "a,learning-rate=0.1",
        "a,learning-rate=0.2",
        "b,learning-rate=0.1",
        "b,learning-rate=0.2",
    ]
    # A variant's own options go before those of all.
    assert spec.variants[1] == Variant(
        "a,learning-rate=0.2",
        (
            *("--steps", "7", "--model.layers", "2"),
            "--model.attention.energy.learn-temperature",
            *("--optimiser.learning-rate", "0.2"),
        ),
    )
    assert "--no-tie" in spec.variants[2].arguments


def test_a_grid_alone_names_its_points_and_the_first_is_the_baseline(tmp_path):
    spec = read(tmp_path, "[grid]\nsteps = [1, 2]\nmodel.layers = [3]")
    assert [variant.name for variant in spec.variants] == ["steps=1,layers=3", "steps=2,layers=3"]
    assert spec.baseline == "steps=1,layers=3"
    assert spec.seeds == (0,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seeds = [", "which cannot be read"),
        ("steps = 3", "got 'steps' in .* expected only seeds, baseline"),
        ("", "got nothing to vary"),
        ("[options]\nsteps = 3", "got nothing to vary"),
        ("[grid]\nsteps = 3", "got steps = 3 in the grid, expected a list"),
        ("[grid]\nsteps = []", "expected a list of values"),
        ("[grid]\nseed = [1]", "got the option 'seed', expected none of"),
        ("[grid]\nsteps = [1]\n[options]\nout = 'x'", "got the option 'out'"),
        ("seeds = [1, 1]\n[grid]\nsteps = [1]", r"got seeds = \[1, 1\]"),
        ("seeds = []\n[grid]\nsteps = [1]", r"got seeds = \[\]"),
        ("seeds = 3\n[grid]\nsteps = [1]", "got seeds = 3"),
        ("seeds = [-1]\n[grid]\nsteps = [1]", r"got seeds = \[-1\]"),
        ("seeds = [true]\n[grid]\nsteps = [1]", r"got seeds = \[True\]"),
        ("baseline = 'c'\n[grid]\nsteps = [1]", "got the baseline 'c', expected a variant: steps"),
        ("[grid]\nsteps = [1, 1]", "got two variants 'steps=1'"),
        ("[[variants]]\nsteps = 1", "got a variant without a name"),
        ("[[variants]]\nname = 3", "got a variant without a name"),
        ("variants = 3", "got variants that are no list"),
        ("options = 3\n[grid]\nsteps = [1]", "got options that is no table"),
        ("grid = 3", "got grid that is no table"),
        (f"[[variants]]\nname = '{'a' * 151}'", "expected at most 150 letters"),
        ("[grid]\ndata = ['a/b']", "got the name 'data=a/b'"),
        ("[grid]\nsteps = [1]\n[options]\nbatch = [2]", r"got batch = \[2\], expected a number"),
    ],
)
def test_what_describes_no_sweep_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)


def test_options_of_one_end_are_told_apart(tmp_path):
    text = """
    [grid]
    "model.attention.descent.steps" = [1]
    "model.mlp.descent.steps" = [2]
    batch = [4]
    steps = [3]
    """
    (variant,) = read(tmp_path, text).variants
    assert variant.name == "attention.descent.steps=1,mlp.descent.steps=2,batch=4,steps=3"


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"none\.toml, which cannot be read"):
        read_spec(tmp_path / "none.toml")
