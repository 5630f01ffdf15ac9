"""`cem verify` as a sceptic runs it: what it says, what it writes, how it ends."""

import json

import pytest

from cem_jax.cli import main as command
from cem_jax.cli import verify as cli
from cem_jax.evaluation.certificate import verify
from cem_jax.evaluation.certificate.certify import Row
from cem_jax.evaluation.certificate.verify import Job
from cem_jax.runs.user_energy import load_energy

# At most 30 lines: what a user writes.
ENERGY = '''
import jax
import jax.numpy as jnp

from cem_jax import Energy, fan_in, parameter


class Springs(Energy):
    """A pull of each position towards a map of the mean of its past."""

    def __init__(self, dim, *, rngs):
        self.pull = parameter(fan_in(rngs, (dim, dim), dim), "D K")

    def condition(self, c, sites):
        seen = sites.segment[:, :, None] == sites.segment[:, None, :]
        seen &= sites.position[:, :, None] >= sites.position[:, None, :]
        seen &= (sites.segment != 0)[:, :, None]
        weight = seen / jnp.maximum(jnp.sum(seen, axis=-1, keepdims=True), 1)
        return weight.astype(c.dtype) @ c @ self.pull[...].astype(c.dtype)

    def __call__(self, u, context):
        off = (u - context).astype(jnp.promote_types(u.dtype, jnp.float32))
        return jnp.sum(self.bend(off), axis=-1)

    def bend(self, off):
        return jnp.log(jnp.cosh(off))
'''
WRONG = '''

@jax.custom_jvp
def bend(off):
    return jnp.log(jnp.cosh(off))


@bend.defjvp
def _(primals, tangents):
    return bend(*primals), 1.001 * jnp.tanh(primals[0]) * tangents[0]


class Wrong(Springs):
    """The same, with a derivative that is not its own."""

    def bend(self, off):
        return bend(off)


class Narrow(Springs):
    """The same, always in float32."""

    def bend(self, off):
        return jnp.log(jnp.cosh(off.astype(jnp.float32)))
'''


@pytest.fixture
def energy(tmp_path):
    assert len(ENERGY.strip().splitlines()) <= 30
    file = tmp_path / "mine.py"
    file.write_text(ENERGY + WRONG)
    return file


@pytest.mark.slow
def test_a_user_s_energy_passes(energy, tmp_path, capsys):
    table = tmp_path / "table.json"
    assert command.main(["verify", "--attention", f"{energy}:Springs", "--json", str(table)]) == 0
    written = json.loads(table.read_text())
    assert written["passed"]
    assert {row["precision"] for row in written["rows"]} == {"float64", "float32", "bfloat16", "-"}
    assert written["comparisons"] == len(written["rows"])
    said = capsys.readouterr().out
    assert "All pass." in said
    assert f"{written['comparisons']} comparisons of {written['tensors']} tensors" in said


def test_a_user_s_wrong_derivative_fails(energy, capsys, monkeypatch):
    every = verify.cases_of
    monkeypatch.setattr(verify, "cases_of", lambda *options: every(*options)[:1])
    assert command.main(["verify", "--attention", f"{energy}:Wrong"]) == 1
    assert "FAILED" in capsys.readouterr().out


def test_an_energy_that_narrows_is_told_so(energy, capsys, hook_off):
    assert command.main(["verify", "--attention", f"{energy}:Narrow"]) == 2
    assert "promote_types" in capsys.readouterr().err


ROWS = [
    Row("one layer", "float64", "A = C", "output", 1e-16, 1e-10, 3),
    Row("one layer", "float32", "A = C", "output", float("nan"), 1e-5, 2),
    Row("one layer", "bfloat16", "A = C", "output", float("inf"), 1e-2, 2),
]


def _with(monkeypatch, rows):
    monkeypatch.setattr(verify, "jobs", lambda **options: [Job("one", lambda: rows)])


def test_what_is_not_finite_is_a_failure_and_valid_json(monkeypatch, tmp_path, capsys):
    _with(monkeypatch, ROWS)
    file = tmp_path / "table.json"
    assert cli.main(["--json", str(file)]) == 1
    written = json.loads(file.read_text(), parse_constant=lambda name: pytest.fail(name))
    assert [row["passed"] for row in written["rows"]] == [True, False, False]
    assert [row["error"] for row in written["rows"]] == [1e-16, None, None]
    assert "FAILED: 2 of 3" in capsys.readouterr().out


def test_success_is_zero(monkeypatch):
    _with(monkeypatch, ROWS[:1])
    assert cli.main([]) == 0


def test_an_error_in_a_job_reaches_the_caller(monkeypatch):
    def broken():
        raise ValueError("from a job")

    monkeypatch.setattr(verify, "jobs", lambda **options: [Job("one", broken)])
    with pytest.raises(ValueError, match="from a job"):
        cli.main([])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "-1"], "seed: got -1"),
        (["--json", "/no/such/folder/table.json"], "expected a file in a folder that exists"),
        (["--attention", "nothing.py:Energy"], "nothing.py"),
    ],
)
def test_misuse_is_two_with_one_message(arguments, message, capsys):
    assert command.main(["verify", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_option_is_two(capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["verify", "--fast"])
    assert ended.value.code == 2


def test_help_teaches(capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["verify", "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    for word in ("--full", "--attention", "--json", "exit status", "central differences"):
        assert word in said


def test_full_holds_more_than_the_default():
    few, many = (verify.jobs(full=full) for full in (False, True))
    assert len(few) < len(many)
    assert [job.name for job in few[:2]] == ["another energy", "potentials"]


LEAKY = """
import jax.numpy as jnp

from cem_jax import Energy, accumulation_dtype


class Next(Energy):
    def __init__(self, dim, *, rngs):
        pass

    def condition(self, c, sites):
        return jnp.roll(c, -1, axis=1)

    def __call__(self, u, context):
        return jnp.sum(jnp.square(u - context), axis=-1, dtype=accumulation_dtype(u))


"""


def test_an_energy_that_sees_the_future_fails(tmp_path, capsys, monkeypatch):
    every = verify.cases_of
    monkeypatch.setattr(verify, "cases_of", lambda *options: every(*options)[:1])
    (tmp_path / "leak.py").write_text(LEAKY)
    table = tmp_path / "table.json"
    spec = f"{tmp_path}/leak.py:Next"
    assert command.main(["verify", "--attention", spec, "--json", str(table)]) == 1
    rows = json.loads(table.read_text())["rows"]
    failed = {row["comparison"] for row in rows if not row["passed"]}
    # The roll wraps around, too: the last position sees the first.
    assert failed == {"does not see the future", "does not see another document"}
    assert command.main(["train", "--attention", f"{tmp_path}/leak.py:Next", "--length", "8"]) == 2
    assert "moves with the future" in capsys.readouterr().err


def test_a_file_that_exits_is_no_certificate(tmp_path, capsys):
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(0)\n")
    assert command.main(["verify", "--attention", f"{tmp_path}/exits.py:P"]) == 2
    assert "SystemExit" in capsys.readouterr().err


def test_a_file_may_import_its_neighbour(tmp_path):
    (tmp_path / "neighbour_of_energies.py").write_text(LEAKY)
    (tmp_path / "imports.py").write_text("from neighbour_of_energies import Next\n")
    assert load_energy(f"{tmp_path}/imports.py:Next").factory.__name__ == "Next"
