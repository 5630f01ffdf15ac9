import os
import signal

import pytest
from jax.experimental import multihost_utils

from cem_jax.runs.stopping import AgreedStop, StopSignals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_and_the_handlers_come_back(number):
    before, told = signal.getsignal(number), []
    with StopSignals(told.append) as stop:
        assert not stop()
        os.kill(os.getpid(), number)
        # The handler itself says nothing: it may have come in the middle of a print.
        assert told == []
        assert stop()
        assert stop()
        assert len(told) == 1
        assert told[0].startswith(signal.Signals(number).name)
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_stops_at_once():
    with StopSignals(lambda text: None):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_after_the_last_step_sigterm_ends_a_process_of_several(monkeypatch):
    """Not one of those that stop, which it may reach late; a handler stands for JAX's own."""
    before = signal.signal(signal.SIGTERM, keeps := lambda number, frame: None)
    try:
        for stops, left in ((True, keeps), (False, signal.SIG_DFL)):
            monkeypatch.setattr(
                multihost_utils, "reached_preemption_sync_point", lambda step, stops=stops: stops
            )
            with AgreedStop(lambda text: None) as stop:
                stop()
                assert signal.getsignal(signal.SIGTERM) is keeps
            assert signal.getsignal(signal.SIGTERM) is left
    finally:
        signal.signal(signal.SIGTERM, before)


def test_processes_agree_on_a_step_of_the_run(monkeypatch):
    """Orbax asks the same service with the steps of the run, also of one that goes on."""
    asked = []

    def reached(step):
        asked.append(step)
        return step == 1002

    monkeypatch.setattr(multihost_utils, "reached_preemption_sync_point", reached)
    told = []
    with AgreedStop(told.append) as stop:
        stop.begin(1000)
        assert [stop(), stop()] == [False, True]
    assert asked == [1001, 1002]
    assert stop.signal == signal.SIGTERM
    assert told == ["asked to stop: all processes save after this step, then stop"]
