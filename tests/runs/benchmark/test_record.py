"""From seconds to figures, tables and files, and back."""

import dataclasses
import json

import pytest
from rich.console import Console

from cem_jax.runs.benchmark.picture import Line, draw_lines, draw_ratios
from cem_jax.runs.benchmark.quantities import (
    BYTES_RATIO,
    FLOP_RATIO,
    RELATIVE_RATE,
    TIME_OVER_FLOPS,
    TIME_RATIO,
    spread,
)
from cem_jax.runs.benchmark.record import Group, read, write
from cem_jax.runs.benchmark.session import publish
from cem_jax.runs.benchmark.table import for_console, markdown


def test_ratios_are_taken_within_a_round(record):
    (group,) = record.groups
    slow = group.sides[1]
    assert TIME_RATIO.of(group, slow) == [2.0, 4.0, 1.5]
    assert FLOP_RATIO.of(group, slow) == [2.0]
    assert TIME_OVER_FLOPS.of(group, slow) == [1.0, 2.0, 0.75]
    assert RELATIVE_RATE.of(group, slow) == [1.0, 0.5, 1 / 0.75]
    assert BYTES_RATIO.of(group, slow) == [1.5]


def test_the_median_of_ratios_is_not_the_ratio_of_medians(record):
    (group,) = record.groups
    assert spread(TIME_RATIO.of(group, group.sides[1])).median == 2.0
    medians = [spread(side.seconds).median for side in group.sides]
    assert medians == [1.0, 2.0]
    assert spread([1.0, 2.0, 3.0, 4.0, 10.0]) == (3.0, 2.0, 4.0, 1.0, 10.0, 5)
    assert spread([7.0]) == (7.0, 7.0, 7.0, 7.0, 7.0, 1)


def test_what_is_not_known_has_no_ratio(record):
    (group,) = record.groups
    bare = dataclasses.replace(group.sides[1], figures={})
    assert FLOP_RATIO.of(group, bare) == TIME_OVER_FLOPS.of(group, bare) == []
    none = dataclasses.replace(group.sides[0], figures={"temporary_bytes": 0})
    assert BYTES_RATIO.of(Group("g", "base", (none, group.sides[1])), group.sides[1]) == []


def test_a_record_survives_its_file(record, tmp_path):
    path = tmp_path / "two.json"
    write(record, path)
    assert read(path) == record
    assert [file.name for file in tmp_path.iterdir()] == ["two.json"]
    content = json.loads(path.read_text())
    assert content["groups"][0]["sides"][1]["seconds"] == [2.0, 8.0, 1.5]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"groups": []}', '{"groups": [{"sides": 1}]}'])
def test_a_damaged_file_is_told(text, tmp_path):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ValueError, match=r"record: got .*bad\.json.*measure again"):
        read(tmp_path / "bad.json")


def test_the_table_shows_medians_quartiles_and_no_empty_column(record):
    header, rule, base, slow = markdown(record).splitlines()
    assert header.split(" | ")[:3] == ["| side", "median ms", "time / baseline"]
    assert "compilations" not in header
    assert "what" not in header
    assert set(rule) == set("| -")
    assert base.startswith("| base | 1,000.00 |  |  |")
    assert "| slow | 2,000.00 | 2.000 [1.750, 3.000] | 2.000 | 1.000 [0.875, 1.500] |" in slow


def test_groups_are_named_once_on_a_terminal(record):
    two = (record.groups[0], dataclasses.replace(record.groups[0], name="other"))
    record = dataclasses.replace(record, groups=two)
    console = Console(width=100)
    with console.capture() as captured:
        console.print(for_console(record))
    said = captured.get()
    assert [said.count(name) for name in ("work", "other", "base", "slow")] == [1, 1, 3, 2]
    assert "Two sides" in said
    assert len(markdown(record).splitlines()) == 6


def test_pictures_are_drawn_beside_the_table(record, tmp_path):
    def ratios(record, path):
        draw_ratios(record, path, TIME_RATIO, "Slow over base", target=1.05)

    def lines(record, path):
        pairs = [Line("a", [1, 2, 4], [3, 6, 12]), Line("b", [1, 2, 4], [3, 3, 3])]
        draw_lines(pairs, path, x="n", y="bytes", title="Growth", log=True)

    files = publish(record, tmp_path / "two.json", {"": ratios, "-lines": lines})
    assert [file.name for file in files] == ["two.json", "two.md", "two.png", "two-lines.png"]
    assert sorted(files) == sorted(tmp_path.iterdir())
    assert all(file.read_bytes()[1:4] == b"PNG" for file in files[2:])
    assert files[1].read_text() == markdown(record)
