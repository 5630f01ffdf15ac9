"""The command itself: what it says of mistakes, and of faults that are not the caller's."""

import pytest

from cem_jax.cli import main as module
from cem_jax.cli.main import main


def test_help_names_every_command(capsys):
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in module.COMMANDS)


def test_a_misspelt_command_is_told_its_neighbour(capsys):
    assert main(["trian"]) == 2
    assert "Did you mean train?" in capsys.readouterr().err


def test_a_mistake_is_one_line(capsys):
    assert main(["train", "--steps", "0"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cem train: steps: got 0, expected")
    assert error.count("\n") == 1


def test_a_fault_from_elsewhere_keeps_its_traceback(monkeypatch):
    class Broken:
        @staticmethod
        def main(arguments):
            raise ValueError("of somebody else")

    monkeypatch.setattr(module.importlib, "import_module", lambda name: Broken)
    with pytest.raises(ValueError, match="of somebody else"):
        main(["train"])
