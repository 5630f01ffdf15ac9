"""The queue: order, what is skipped, what a failure stops, and one real child process."""

import pytest

from experiments.gaussian_process import runner
from experiments.gaussian_process.plan import CASES
from experiments.gaussian_process.results import run_path, write
from experiments.gaussian_process.runner import Job

NAMES = ("1d-1layer-mha", "5d-1layer-cem-t1")


def test_all_cases_of_a_seed_come_before_the_next_seed(tmp_path):
    jobs = runner.missing((), (0, 1), tmp_path)
    assert len(jobs) == 2 * len(CASES)
    assert [job.seed for job in jobs] == [0] * len(CASES) + [1] * len(CASES)
    assert len(set(jobs)) == len(jobs)


def test_finished_runs_are_skipped(tmp_path):
    write(run_path(CASES[NAMES[0]], 1, tmp_path), {})
    jobs = runner.missing(NAMES, (0, 1), tmp_path)
    assert jobs == [Job(NAMES[0], 0), Job(NAMES[1], 0), Job(NAMES[1], 1)]


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match="Did you mean 1d-1layer-mha"):
        runner.missing(("1d-1layers-mha",), (0,), tmp_path)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failure_does_not_stop_the_others(workers, capsys):
    done = []

    def start(job):
        done.append(job)
        return "exit status 1: broken" if job.seed == 1 else ""

    jobs = [Job(NAMES[0], seed) for seed in range(4)]
    assert runner.work(jobs, start, workers) == [jobs[1]]
    assert sorted(done) == jobs
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert "4/4" in lines[-1]
    assert sum("FAILED, exit status 1: broken" in line for line in lines) == 1


def test_an_interruption_leaves_what_waits():
    done = []

    def start(job):
        done.append(job)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.work([Job(NAMES[0], seed) for seed in range(50)], start, 1)
    assert len(done) < 50


def test_a_child_process_skips_what_is_there_and_tells_why_it_failed(tmp_path):
    job = Job(NAMES[0], 0)
    path = run_path(CASES[job.name], job.seed, tmp_path)
    write(path, {"kept": True})
    assert runner.start(job, tmp_path) == ""
    assert "kept" in path.read_text()
    complaint = runner.start(Job("no such case", 0), tmp_path)
    assert complaint.startswith("exit status 2: ")
    assert "got 'no such case'" in complaint
