import json

import pytest

from cem_jax.runs.folder import RunFolder, next_folder, require_free


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


def test_metrics_are_cut_back_to_the_state_and_what_was_torn_is_dropped(folder):
    folder.append_metrics([{"step": step, "loss": 1.0} for step in (1, 2, 3, 4)])
    folder.append_metrics([{"step": 2, "valid_loss": 1.5}])
    with (folder.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "lo')  # the process was killed here
    assert [record["step"] for record in folder.metrics()] == [1, 2, 3, 4, 2]
    folder.cut_back(2)
    assert [record["step"] for record in folder.metrics()] == [1, 2, 2]
    folder.append_metrics([{"step": 3, "loss": 2.0}])
    assert [record["step"] for record in folder.metrics()] == [1, 2, 2, 3]


def test_a_damaged_line_costs_no_other(folder):
    folder.append_metrics([{"step": step, "loss": 1.0} for step in (1, 2)])
    with (folder.path / "metrics.jsonl").open("a") as file:
        file.write('garbage\n[1, 2]\n{"step": "x"}\n{}\n')
    folder.append_metrics([{"step": 3, "loss": 1.0}])
    assert [record["step"] for record in folder.metrics()] == [1, 2, 3]


def test_a_whole_line_without_its_end_is_torn_too(folder):
    folder.append_metrics([{"step": 1, "loss": 1.0}])
    with (folder.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "loss": 1.0}')
    # The next record would be written behind it, on the same line.
    assert [record["step"] for record in folder.metrics()] == [1]


def test_samples_are_cut_back_whatever_they_say(folder):
    texts = {10: "one\r\n\n=== no heading\n\n", 20: "two \udcff\n=== step 3\nof it", 30: "three"}
    whole = b""
    for step, text in texts.items():
        folder.append_sample(step, text)
        if step == 20:
            whole = (folder.path / "samples.txt").read_bytes()
    folder.cut_back(20)
    assert (folder.path / "samples.txt").read_bytes() == whole
    assert b"=== step 10\none\r\n" in whole
    folder.cut_back(0)
    assert (folder.path / "samples.txt").read_text() == ""


def test_a_summary_is_of_an_end_and_goes_with_it(folder):
    summary = dict.fromkeys(("name", "valid_loss", "valid_bits_per_byte", "sample"), 1.0)
    folder.write("summary.json", summary)
    assert folder.summary() == summary
    # Of a run that is at its end, and is evaluated on more.
    folder.append_metrics([{"step": 5, "loss": 1.0}, {"step": 5, "valid_loss": 1.0}])
    folder.cut_back(5)
    assert folder.summary() == summary
    folder.cut_back(4)
    assert folder.summary() is None
    folder.write("summary.json", summary)
    folder.cut_back(5)
    assert folder.summary() is None
    # One that is damaged is computed again.
    for damaged in ("{", "{}", "[]", json.dumps({**summary, "valid_loss": None})):
        (folder.path / "summary.json").write_text(damaged)
        assert folder.summary() is None


def test_a_damaged_file_says_so(folder):
    for damaged in ("{", "{}", "[]", "3"):
        (folder.path / "config.json").write_text(damaged)
        with pytest.raises(ValueError, match=r"got a damaged file .*config.json"):
            folder.config()
    with pytest.raises(ValueError, match=r"got no file .*summary.json"):
        folder.read("summary.json")


def test_a_folder_that_holds_a_run_is_free_for_its_resumption_alone(folder):
    require_free(folder, resume=False)  # empty
    require_free(RunFolder(folder.path / "new"), resume=True)
    folder.write("config.json", {})
    require_free(folder, resume=True)
    with pytest.raises(ValueError, match="which holds a run"):
        require_free(folder, resume=False)
    with pytest.raises(ValueError, match="which is a file"):
        require_free(RunFolder(folder.path / "config.json"), resume=True)


def test_a_folder_that_cannot_be_made_is_refused(folder):
    (folder.path / "file").write_text("")
    with pytest.raises(ValueError, match="which cannot be made"):
        RunFolder(folder.path / "file" / "run").create()


def test_the_default_folder_is_the_next_free_one(tmp_path):
    assert next_folder(tmp_path, "cem").name == "cem-001"
    (tmp_path / "cem-001").mkdir()
    assert next_folder(tmp_path, "cem").name == "cem-002"


def test_rows_that_were_not_finite_are_forgotten_with_their_step(tmp_path):
    folder = RunFolder(tmp_path)
    files = [folder.write_rows(step, [{"row": 7, "text": "\udce9"}]) for step in (3, 12)]
    assert [file.name for file in files] == ["step-3.jsonl", "step-12.jsonl"]
    assert json.loads(files[1].read_text()) == {"row": 7, "text": "\udce9"}
    folder.cut_back(4)
    assert [file.is_file() for file in files] == [True, False]
