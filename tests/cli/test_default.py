"""What `cem train` trains unless it is told, from its training to its exchange."""

import jax
import numpy as np
import small_run

from cem_jax.cli.main import main
from cem_jax.energies import InteractionConfig
from cem_jax.runs.folder import RunFolder
from cem_jax.runs.loading import load


def test_the_default_trains_resumes_samples_and_is_exchanged(
    own_text, tmp_path, monkeypatch, capsys
):
    named = small_run.SMALL.index("--model")
    small = [*small_run.SMALL[:named], *small_run.SMALL[named + 2 :]]
    line = ["train", "--data", str(own_text), *small]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert main([*line, "--out", str(whole)]) == 0
    energy = load(whole).config.model.attention.energy
    assert isinstance(energy, InteractionConfig)
    assert energy.context_score is not None
    assert small_run.stop_after(4, [*line, "--out", str(stopped)], monkeypatch) == 130
    assert main(["train", "--resume", "--out", str(stopped)]) == 0
    figure = "valid_bits_per_byte"
    reached = RunFolder(whole).summary()[figure]
    assert RunFolder(stopped).summary()[figure] == reached
    capsys.readouterr()
    # Longer than the rows of training, and with another T.
    many = ["--tokens", "24", "--inner-steps", "2"]
    assert main(["generate", str(whole), "The state", *many]) == 0
    assert capsys.readouterr().out.startswith("The state")
    assert main(["export", str(whole), "--to", str(tmp_path / "weights")]) == 0
    assert main(["import", str(tmp_path / "weights"), "--to", str(tmp_path / "again")]) == 0
    here, there = (jax.tree.leaves(load(run).params) for run in (whole, tmp_path / "again"))
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one, other)
