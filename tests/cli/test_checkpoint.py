"""`cem checkpoint`: a run's saved states, from the command line."""

import json
import shutil

import pytest

from cem_jax.cli.main import main


@pytest.fixture
def damaged(trained, tmp_path):
    """A copy of the run whose newest state has other numbers than were saved."""
    run = tmp_path / "run"
    shutil.copytree(trained.path, run)
    beside = run / "checkpoints/6/metadata/metadata"
    content = json.loads(beside.read_text())
    content["sums"]["['params']['embedding']"] ^= 1
    beside.write_text(json.dumps(content))
    return run


def test_the_states_of_a_run_are_a_table(trained, capsys):
    assert main(["checkpoint", "list", str(trained.path)]) == 0
    four, six = [line.split() for line in capsys.readouterr().out.splitlines() if "20" in line]
    assert (four[0], six[0]) == ("4", "6")
    assert six[-3:] == [f"{trained.summary['valid_loss']:.4f}", "newest,", "best"]
    assert len(four) == 5


def test_whole_states_are_ok_wherever_they_are_found(trained, capsys):
    for path in (trained.path, trained.path / "checkpoints"):
        assert main(["checkpoint", "verify", str(path)]) == 0
        assert capsys.readouterr().out == "step 4: ok\nstep 6: ok\n"
    assert main(["checkpoint", "verify", str(trained.path), "--step", "4"]) == 0
    assert capsys.readouterr().out == "step 4: ok\n"


def test_a_damaged_state_is_told_and_is_the_status(damaged, capsys):
    assert main(["checkpoint", "verify", str(damaged)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "step 4: ok",
        "step 6: damaged: params/embedding has other numbers than were saved",
    ]
    # As a run that goes on from there does.
    aside = damaged / "checkpoints-damaged"
    aside.mkdir()
    (damaged / "checkpoints/6").rename(aside / "6")
    assert main(["checkpoint", "verify", str(damaged)]) == 0
    assert capsys.readouterr().out == "step 4: ok\n1 set aside as damaged before: not read\n"
    assert main(["checkpoint", "list", str(damaged)]) == 0
    assert capsys.readouterr().out.rstrip().endswith("set aside as damaged")


@pytest.mark.parametrize("command", ["list", "verify"])
def test_where_there_is_no_state_the_message_says_so(tmp_path, capsys, command):
    assert main(["checkpoint", command, str(tmp_path / "nowhere")]) == 2
    assert "nowhere, which is no folder, expected" in capsys.readouterr().err
    assert main(["checkpoint", command, str(tmp_path)]) == 2
    assert "without a saved state, expected" in capsys.readouterr().err


def test_another_step_is_told_those_that_there_are(trained, capsys):
    assert main(["checkpoint", "verify", str(trained.path), "--step", "5"]) == 2
    assert "step: got 5, expected one of 4, 6." in capsys.readouterr().err
