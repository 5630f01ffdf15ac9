"""The records of a run, shown elsewhere: each step once, also where the run goes on."""

import importlib.util
import json
import struct
import sys
from types import SimpleNamespace

import pytest

from cem_jax.cli.main import main
from cem_jax.runs.folder import RunFolder
from cem_jax.runs.tracking import Trackers, tracker
from cem_jax.runs.watch import Watch

DESCRIBED = {"config": {"name": "cem"}}


def steps(*numbers):
    return [{"step": n, "loss": 4.0 - n / 8, "tokens": 32.0, "seconds": float(n)} for n in numbers]


def evaluation(step):
    return [{"step": step, "valid_loss": 3.0 + step, "valid_bits_per_byte/Book": 1.0 * step}]


def train(name, folder, *parts):
    """As a run does that shows these records."""
    with Trackers((name, name), folder, DESCRIBED) as trackers:
        trackers.begin()
        for records in parts:
            folder.append_metrics(records)
            trackers.record(records)


def killed_and_resumed(name, folder):
    """Killed after step 5 and before its evaluation; it goes on from step 3."""
    train(name, folder, steps(1, 2, 3), evaluation(3), steps(4, 5))
    folder.cut_back(3)
    for file in folder.path.glob("tensorboard/*"):
        # Its name is of the second it was begun in: the first process was in another.
        file.rename(file.with_name("events.out.tfevents.1"))
    skipped = [{"step": 7, "tokens": 32.0, "skipped": 1, "why": "loss nan", "seconds": 7.0}]
    train(name, folder, steps(4, 5), evaluation(5), steps(6), skipped)
    expected = [*steps(1, 2, 3), *evaluation(3), *steps(4, 5), *evaluation(5), *steps(6), *skipped]
    assert folder.metrics() == expected
    return points(expected)


def points(records):
    """Each figure of each step, but not what is said in words."""
    told = ("step", "why")
    return sorted((r["step"], name, r[name]) for r in records for name in r if name not in told)


@pytest.mark.parametrize(("name", "package"), [("tensorboard", "tensorboardX"), ("wandb", "wandb")])
def test_a_missing_package_is_told_before_any_work(tmp_path, monkeypatch, capsys, name, package):
    find = importlib.util.find_spec
    hidden = SimpleNamespace(
        util=SimpleNamespace(find_spec=lambda name: None if name == package else find(name))
    )
    monkeypatch.setattr(tracker, "importlib", hidden)
    out = tmp_path / "run"
    assert main(["train", "--track", name, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert f"track: got {name!r}, expected the package {package}" in error
    assert f"pip install '.[{name}]'" in error
    assert not out.exists()


def test_another_name_is_refused():
    with pytest.raises(ValueError, match="track: got 'aim', expected"):
        Watch(track=("aim",))


def test_nothing_is_shown_where_nothing_was_asked_for(tmp_path):
    folder = RunFolder(tmp_path)
    with Trackers((), folder, DESCRIBED) as trackers:
        trackers.begin()
        trackers.record(steps(1))
    assert list(tmp_path.iterdir()) == []


def scalars(folder):
    """The points in the event files, in the order of their names."""
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for file in sorted(folder.rglob("events.*")):
        data = file.read_bytes()
        while data:
            size = struct.unpack("<Q", data[:8])[0]
            event, data = Event.FromString(data[12 : 12 + size]), data[16 + size :]
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
    return sorted(found)


def test_tensorboard_has_each_point_once(tmp_path):
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed (extra tensorboard)")
    expected = killed_and_resumed("tensorboard", RunFolder(tmp_path))
    found = scalars(tmp_path / "tensorboard")
    assert [point[:2] for point in found] == [point[:2] for point in expected]
    assert [point[2] for point in found] == pytest.approx([point[2] for point in expected])
    # Also what was there before anybody asked.
    folder = RunFolder(tmp_path / "later")
    folder.create()
    folder.append_metrics(steps(1, 2))
    train("tensorboard", folder, steps(3))
    assert [point[0] for point in scalars(folder.path) if point[1] == "loss"] == [1, 2, 3]


class Wandb(SimpleNamespace):
    """In place of the package: what it is told, over several processes."""

    def __init__(self):
        super().__init__(begun=[], logged=[], finished=0)

    def init(self, **given):
        self.begun.append(given)
        return self

    def define_metric(self, name, step_metric):
        assert (name, step_metric) == ("*", "step")

    def log(self, values):
        self.logged.append(values)

    def finish(self):
        self.finished += 1


def test_wandb_is_sent_each_point_once_in_one_run(tmp_path, monkeypatch):
    fake = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    expected = killed_and_resumed("wandb", RunFolder(tmp_path))
    assert points(fake.logged) == expected
    assert not any("why" in values for values in fake.logged)
    one, other = fake.begun
    assert one == other
    assert (one["project"], one["name"], one["config"]) == ("mine", tmp_path.name, DESCRIBED)
    assert (one["resume"], one["dir"]) == ("allow", str(tmp_path))
    assert fake.finished == 2
    assert json.loads((tmp_path / "wandb.json").read_text())["id"] == one["id"]
    # Another run is another there.
    (tmp_path / "other").mkdir()
    train("wandb", RunFolder(tmp_path / "other"))
    assert fake.begun[-1]["id"] != one["id"]
