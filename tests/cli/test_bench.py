"""`cem bench` as a user runs it: what it says, what it writes, how it ends."""

import pytest

from cem_jax.cli import main as command
from cem_jax.runs.benchmark.record import read

SHAPE = "--batch 2 --length 8 --vocab-size 32 --dim 16 --layers 1 --heads 2 --features 24"


def bench(*arguments):
    return command.main(["bench", *SHAPE.split(), *arguments])


def test_sides_stand_beside_each_other(tmp_path, capsys):
    options = ["--sides", "llama", "cem-2", "--rounds", "2", "--name", "two"]
    assert bench(*options, "--out", str(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "Training steps: time and memory beside llama" in said
    assert "cem-2" in said
    names = {"two.json", "two.md", "two.png", "two-flops.png"}
    assert {file.name for file in tmp_path.iterdir()} == names
    record = read(tmp_path / "two.json")
    assert record.complete
    assert record.command.startswith("cem bench --batch 2")
    assert record.settings["what"] == "step"
    llama, cem = record.groups[0].sides
    assert (record.groups[0].baseline, llama.name, cem.name) == ("llama", "llama", "cem-2")
    assert len(llama.seconds) == len(cem.seconds) == 2
    assert llama.figures["parameters"] != cem.figures["parameters"]


def test_the_forward_pass_alone_is_printed_and_writes_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--sides", "plain-1", "hand-1", "--rounds", "1", "--what", "forward"]
    assert bench(*options) == 0
    assert "hand-1" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_explain_says_the_backend_and_measures_nothing(capsys, monkeypatch):
    monkeypatch.setattr(
        "cem_jax.runs.benchmark.session.measure", lambda *a, **o: pytest.fail("ran")
    )
    assert bench("--explain", "--sides", "plain-2", "llama") == 0
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if not line.startswith("  ")] == ["plain-2:", "llama:"]
    assert said[1].startswith("  plain ('plain' in the config): it was asked for")
    assert "no backend" in said[-1]


def test_ctrl_c_ends_with_130(capsys, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("cem_jax.runs.benchmark.comparison.model_side", interrupted)
    assert bench() == 130
    assert "Interrupted: 0 of 1 groups" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rounds", "0"], "rounds: got 0"),
        (["--sides", "lama", "cem-1"], "Did you mean llama?"),
        (["--sides", "llama"], "sides: got llama alone"),
        (["--sides", "llama", "llama"], "sides: got 'llama' twice"),
        (["--backend", "flash"], "backend: got 'flash'"),
        (["--dim", "15"], "heads: got 2 for width 15"),
        (["--layers", "0"], "layers: got 0"),
        (["--name", "a/b"], "name: got 'a/b'"),
    ],
)
def test_misuse_is_two_with_one_message(arguments, message, capsys, hook_off):
    assert bench(*arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("cem bench: ")
    assert message in error


def test_a_file_is_no_folder(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert bench("--out", str(tmp_path / "file")) == 2
    assert "which is a file, expected a folder" in capsys.readouterr().err


def test_help_teaches(capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["bench", "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    for word in (
        "--sides",
        "--what",
        "--rounds",
        "--explain",
        "--out",
        "--length",
        "-bare",
        "hand-T",
    ):
        assert word in said
