import io

from cem_jax.runs.progress import LiveLine, Meter, RunConsole


def test_the_rate_leaves_the_compilation_out():
    meter = Meter()
    assert meter.tokens_per_second == 0
    meter.record([{"tokens": 10.0, "seconds": 50.0}])
    assert meter.tokens_per_second == 10 / 50  # all there is
    meter.record([{"tokens": 10.0, "seconds": 52.0}, {"tokens": 30.0, "seconds": 52.0}])
    assert meter.tokens_per_second == 40 / 2
    assert meter.tokens == 50


def test_a_run_that_goes_on_has_the_rate_of_its_own_steps():
    meter = Meter(seconds=1000.0)
    meter.record([{"tokens": 10.0, "seconds": 1002.0}])
    assert meter.tokens_per_second == 5


def test_the_live_line_says_step_loss_rate_and_time_left():
    console = RunConsole(file=io.StringIO(), force_terminal=True, width=120)
    with LiveLine(console, 100) as line:
        line.start_at(40, 7.0)
        line.record([{"step": 50, "loss": 2.345, "tokens": 20.0, "seconds": 9.0}])
        line.say("[not markup]")
    printed = console.file.getvalue()
    for words in ("step 50/100", "loss 2.345", "10 tokens/s", "left", "[not markup]"):
        assert words in printed


def test_the_loss_of_a_skipped_step_is_the_one_before():
    console = RunConsole(file=io.StringIO(), force_terminal=True, width=120)
    with LiveLine(console, 100) as line:
        line.record([{"step": 5, "loss": 2.345, "tokens": 20.0, "seconds": 9.0}])
        line.record([{"step": 6, "skipped": 1, "tokens": 20.0, "seconds": 9.5}])
    last = [text for text in console.file.getvalue().splitlines() if "step" in text][-1]
    assert "step 6/100" in last
    assert "loss 2.345" in last


class Gone(io.StringIO):
    """The pipe of a reader that has gone."""

    def write(self, text):
        raise BrokenPipeError

    def flush(self):
        raise BrokenPipeError


def test_a_run_goes_on_in_silence_when_its_reader_has_gone(monkeypatch):
    import os

    closed = []
    monkeypatch.setattr(os, "dup2", lambda *files: closed.append(files))
    console = RunConsole(file=Gone())
    console.print("nobody reads this")
    console.print("nor this")
    assert len(closed) == 1
    assert console.quiet
