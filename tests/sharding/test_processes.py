"""Processes of one run: how they are named, and what they do together where there is one."""

import jax
import numpy as np
import pytest

from cem_jax.sharding import Processes, processes
from cem_jax.sharding.processes import by_first, gathered, of_one_gone, require_agreed, together


def test_a_name_says_which_of_how_many_and_where():
    assert Processes.parse("auto") == Processes()
    found = Processes.parse("1/4@host-0.example:7601")
    assert found == Processes("host-0.example:7601", 1, 4)
    assert str(found) == "1/4@host-0.example:7601"


@pytest.mark.parametrize("text", ["", "1/2", "2/2@host:1", "0/0@host:1", "0/1@host", "a/b@host:1"])
def test_a_name_that_says_less_is_refused(text):
    with pytest.raises(ValueError, match="expected 'auto', or INDEX/COUNT@HOST:PORT"):
        Processes.parse(text)


def test_one_process_agrees_with_itself():
    assert gathered([1, 2]).tolist() == [[1, 2]]
    done = []
    by_first(lambda: done.append(1))
    assert done == [1]
    with pytest.raises(OSError, match="full"), together():
        raise OSError("full")


def test_processes_with_another_run_are_named(monkeypatch):
    require_agreed({"batch": 4})
    others = []

    def gather(own):
        others.append(own)
        return np.stack([others[0], others[-1], others[0]])

    monkeypatch.setattr(processes, "gathered", gather)
    require_agreed({"batch": 4})
    with pytest.raises(ValueError, match="another run on the processes 1 than on the first"):
        require_agreed({"batch": 8})


@pytest.mark.parametrize("kind", [ValueError, jax.errors.JaxRuntimeError])
def test_what_xla_says_of_a_process_that_has_gone_is_known(kind, monkeypatch):
    """The error is one or the other; seen: gloo's, in a step and in a gathering."""
    error = kind("UNKNOWN: Gloo all-reduce failed: Connection closed by peer")
    assert of_one_gone(error) is None
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    assert str(of_one_gone(error)).startswith("another process has gone (UNKNOWN: Gloo all-reduce")
    assert of_one_gone(ValueError("batch: got 3, expected 4.")) is None
    assert of_one_gone(OSError("UNKNOWN: no such file")) is None
    assert of_one_gone(kind("RESOURCE_EXHAUSTED: Out of memory")) is None
