"""Every script of the clone, at a shape that takes seconds: its files and its figures."""

import gc
import importlib
import threading

import common
import jax
import jax.numpy as jnp
import pytest
import small_run
from layers import LayerShape, Sublayer, attention, mlp

from cem_jax import DescentConfig
from cem_jax.runs.benchmark.quantities import TEXT_RATE, TOKEN_RATE
from cem_jax.runs.benchmark.record import read

LAYER = "--batch 2 --dim 16 --heads 2 --features 24"
MODEL = f"{LAYER} --layers 1 --vocab-size 32"
SCRIPTS = {
    "derived_over_hand": f"{LAYER} --length 8 --rounds 2 --steps 2 --variants default --what step",
    "diagonal": f"{LAYER} --length 8 --lengths 8 16 --steps 1 --rounds 2",
    "machine_rate": f"{MODEL} --length 8 --rounds 2 --size 32 --sides llama",
    "memory_length": f"{LAYER} --lengths 64 256 --steps 1",
    "memory_steps": f"{LAYER} --layers 1 --vocab-size 32 --length 16 --steps 3 4",
    "compiling": f"{MODEL} --length 8 --rounds 1 --depths 1 2 --sides llama",
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The record of a script, and its folder; each runs once."""
    done = {}

    def measure(name):
        if name not in done:
            script, out = importlib.import_module(name), tmp_path_factory.mktemp(name)
            arguments = [*SCRIPTS[name].split(), "--out", str(out)]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("sys.argv", [f"/somewhere/{name}.py"])
                assert common.start(script.Options, script.plan, arguments) == 0
            done[name] = read(out / f"{name}.json"), out
        return done[name]

    return measure


SLOW = ("memory_length", "memory_steps", "compiling")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in SCRIPTS]
)
def test_a_script_writes_its_files(name, measured):
    record, out = measured(name)
    assert record.complete
    assert record.measurement == name
    assert record.command.startswith(f"python benchmarks/{name}.py --batch 2 ")
    files = {file.name for file in out.iterdir()}
    assert {f"{name}.json", f"{name}.md", f"{name}.png"} <= files
    assert all(len(g.base().seconds) == len(s.seconds) for g in record.groups for s in g.sides)


def test_derived_and_hand_written_layers_do_the_same_work(measured):
    record, _ = measured("derived_over_hand")
    names = ["attention, T = 2, default, step", "mlp, T = 2, default, step"]
    assert [group.name for group in record.groups] == names
    for group in record.groups:
        assert [side.name for side in group.sides] == ["by hand", "derived"]
        assert group.baseline == "by hand"
        assert all(len(side.seconds) == 2 for side in group.sides)
        assert all(side.figures["temporary_bytes"] > 0 for side in group.sides)


def test_lengths_have_as_many_tokens(measured):
    record, _ = measured("diagonal")
    assert [group.name for group in record.groups] == ["L = 8, T = 1", "L = 16, T = 1"]
    assert [side.name for side in record.groups[0].sides] == ["none", "shared"]


def test_the_product_is_the_baseline_of_rates(measured):
    record, _ = measured("machine_rate")
    assert record.groups[0].baseline == "product 32 x 32"
    assert record.groups[0].base().figures == {"flops": 2 * 32**3}


@pytest.mark.slow
def test_batches_and_preparing_are_set_beside_training_and_encoding(tmp_path, monkeypatch):
    script, source = importlib.import_module("data_feed"), small_run.write_text(tmp_path / "a.txt")
    monkeypatch.setattr("sys.argv", ["/somewhere/data_feed.py"])
    words = f"--source {source} --tokenizer train:330 --model llama --batch 2 --length 16"
    arguments = [*words.split(), "--rounds", "1", "--out", str(tmp_path), "--note", "shared"]
    assert common.start(script.Options, script.plan, arguments) == 0
    record = read(tmp_path / "data_feed.json")
    assert record.complete
    assert record.settings["note"] == "shared"
    feeding, training, preparing = record.groups
    assert [side.figures for side in feeding.sides] == [{"tokens": 32}] * 3
    assert TOKEN_RATE.of(feeding, feeding.sides[1]) == [
        pytest.approx(feeding.sides[0].seconds[0] / feeding.sides[1].seconds[0])
    ]
    assert [side.name for side in training.sides] == ["read between steps", "read ahead"]
    # 36 documents to train on, and one of each other split.
    (size,) = {side.figures["text_bytes"] for side in preparing.sides}
    assert 0.9 < size / len(source.read_bytes()) < 0.98
    assert len(TEXT_RATE.of(preparing, preparing.sides[1])) == 1
    # The threads that read ahead end with their functions.
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("batches"):
            thread.join(10)
            assert not thread.is_alive()


def test_whole_logits_need_quadratic_memory(measured):
    record, _ = measured("memory_length")
    for diagonal in ("none", "shared"):
        short, long = (record.group(f"diagonal {diagonal}, L = {n}") for n in (64, 256))
        growth = {}
        for a, b in zip(short.sides, long.sides, strict=True):
            assert (a.figures["length"], b.figures["length"], a.seconds) == (64, 256, ())
            growth[a.name] = b.figures["temporary_bytes"] / a.figures["temporary_bytes"]
        assert list(growth) == ["blockwise", "reference", "plain"]
        assert all(8 < growth[name] < 20 for name in ("reference", "plain"))


@pytest.mark.slow
def test_a_further_step_costs_about_its_carry(measured):
    record, _ = measured("memory_steps")
    assert len(record.groups) == 4
    for group in record.groups:
        first, second = (side.figures["arrays"] for side in group.sides)
        assert 0 <= second - first < 3
        assert [side.figures["steps"] for side in group.sides] == [3, 4]


@pytest.mark.slow
def test_further_calls_compile_nothing(measured):
    record, _ = measured("compiling")
    time, calls = record.groups
    assert [side.name for side in time.sides] == ["1 layers", "2 layers"]
    assert all(side.seconds for side in time.sides)
    counts = {side.name: side.figures["compilations"] for side in calls.sides}
    assert counts == {"fresh": 0, "restored": 0}


def test_compilations_of_a_step_are_seen(monkeypatch):
    compiling = importlib.import_module("compiling")

    class Forgetful:
        """A step that compiles at every call."""

        def __call__(self, state, batch):
            return jax.jit(lambda x: x + 1)(state), None

    state = jnp.ones(3)
    assert compiling.called(Forgetful(), state, None) == compiling.CALLS


def test_the_gradient_is_that_of_parameters_and_input():
    shape = LayerShape(batch=2, length=8, dim=16, heads=2, features=24)
    config = attention(shape, 2, diagonal="shared", preconditioned=True, backend="reference")
    layer = Sublayer(config, shape)
    params, h, sites, cotangent = layer.arguments("step")
    found = jax.jit(layer.gradient)(params, h, sites, cotangent)
    assert found[1].shape == h.shape
    move = 1e-2 * cotangent
    forward = jax.jit(layer.forward)
    moved, still = (jnp.sum(forward(params, x, sites) * cotangent) for x in (h + move, h))
    slope = jnp.sum(found[1] * move)
    assert abs(float(moved - still - slope)) < 0.02 * abs(float(slope))


def test_layers_descend_as_the_presets_do():
    shape = LayerShape(features=24)
    assert isinstance(mlp(shape, 2, preconditioned=True).descent, DescentConfig)
    assert mlp(shape, 2, preconditioned=True).descent.preconditioner.rank == 16
    assert mlp(shape, 2, preconditioned=False).descent.preconditioner is None


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("diagonal", "--rounds 0", "rounds: got 0"),
        ("diagonal", "--lengths 0", "lengths: got 0"),
        ("diagonal", "--label a/b", "label: got 'a/b'"),
        ("derived_over_hand", "--layers conv", "layers: got 'conv'"),
        ("memory_length", "--backends flash", "backend: got 'flash'"),
        ("memory_steps", "--steps 3", "expected two different"),
        ("machine_rate", "--sides lama", "sides: got 'lama'"),
        ("compiling", "--depths 4 0", "depths: got 0"),
    ],
)
def test_misuse_is_two_with_one_message(name, arguments, message, capsys, hook_off):
    script = importlib.import_module(name)
    try:
        status = common.start(script.Options, script.plan, arguments.split())
    except SystemExit as ended:
        # What an option itself refuses, tyro tells.
        status = ended.code
    assert status == 2
    assert message in capsys.readouterr().err
