"""Processes: how many at a time, on which cores, and what a failure or a kill leaves."""

import os
import signal
import subprocess
import sys
import time

import pytest

from cem_jax.runs.sweep.processes import Job, core_shares, run_all


def job(tmp_path, name, program, **variables):
    return Job(name, ("-c", program), tmp_path / f"{name}.log", variables)


def run(jobs, workers=1):
    found = []
    run_all(jobs, workers=workers, ended=found.append)
    return found


def test_a_job_that_fails_stops_no_other(tmp_path):
    jobs = [
        job(tmp_path, "good", "print('one')"),
        job(tmp_path, "bad", "print('first'); raise SystemExit('what was wrong')"),
        job(tmp_path, "killed", "import os; os.kill(os.getpid(), 9)"),
        job(tmp_path, "last", "print('two')"),
    ]
    found = run(jobs)
    assert [ended.job.name for ended in found] == ["good", "bad", "killed", "last"]
    assert [ended.status for ended in found] == [0, 1, -9, 0]
    assert found[1].last_words() == "what was wrong"
    assert found[2].last_words() == "killed by SIGKILL"
    assert jobs[3].log.read_text() == "two\n"


def test_the_last_words_are_those_of_this_attempt(tmp_path):
    first = job(tmp_path, "x", "raise SystemExit('what was wrong')")
    second = job(tmp_path, "x", "raise SystemExit(1)")
    assert [ended.last_words() for ended in run([first, second])] == [
        "what was wrong",
        "it said nothing",
    ]
    assert first.log.read_text() == "what was wrong\n"


def test_a_log_that_is_gone_is_said(tmp_path):
    (ended,) = run([job(tmp_path, "x", "raise SystemExit(1)")])
    ended.job.log.unlink()
    assert ended.last_words() == "its log cannot be read (No such file or directory)"


def test_so_many_run_at_a_time_and_no_more(tmp_path):
    wait = "import time; start = time.time(); time.sleep(0.5); print(start, time.time())"
    jobs = [job(tmp_path, str(number), wait) for number in range(5)]
    run(jobs, workers=2)
    spans = [tuple(map(float, each.log.read_text().split())) for each in jobs]
    moments = [start for start, _ in spans]
    together = [sum(a <= moment < b for a, b in spans) for moment in moments]
    assert max(together) == 2


def test_variables_are_given_where_they_are_not_set(tmp_path, monkeypatch):
    monkeypatch.setenv("CEM_A", "mine")
    print_both = "import os; print(os.environ['CEM_A'], os.environ['CEM_B'])"
    run([job(tmp_path, "x", print_both, CEM_A="theirs", CEM_B="theirs")])
    assert (tmp_path / "x.log").read_text() == "mine theirs\n"


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system gives no cores away")
def test_each_worker_has_its_share_of_the_cores(tmp_path, monkeypatch):
    own = os.sched_getaffinity(0)
    cores = "import os; print(sorted(os.sched_getaffinity(0)))"
    run([job(tmp_path, "x", cores)])
    assert (tmp_path / "x.log").read_text() == f"{sorted(own)}\n"
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5, 7})
    assert core_shares(1) == [(3, 5, 7)]
    assert core_shares(2) == [(3, 7), (5,)]
    assert core_shares(4) == [()] * 4


WAITS = "import time; print('started', flush=True); time.sleep(60)"
PARENT = f"""
import signal, sys
from pathlib import Path
# Whoever runs the tests in the background may have had it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
from cem_jax.runs.sweep.processes import Job, run_all
run_all([Job("x", ("-c", {WAITS!r} ), Path(sys.argv[1]))], workers=1, ended=print)
"""


def stopped(tmp_path, number):
    """A parent that gets a signal while its job runs; its status, and whether the job went."""
    log = tmp_path / "x.log"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(log)], stderr=subprocess.DEVNULL)
    while not (log.exists() and "started" in log.read_text()):
        assert parent.poll() is None
        time.sleep(0.05)
    child = int(
        subprocess.run(["pgrep", "-P", str(parent.pid)], capture_output=True, check=True).stdout
    )
    parent.send_signal(number)
    status = parent.wait(20)
    for _ in range(200):
        if not _alive(child):
            return status
        time.sleep(0.05)
    os.kill(child, 9)
    pytest.fail("the job goes on without its parent")


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells a process of its parent's end"
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_job_outlives_its_parent(tmp_path, number):
    assert stopped(tmp_path, number) != 0
