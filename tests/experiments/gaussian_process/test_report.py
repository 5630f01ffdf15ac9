"""What is written from results alone, finished or not."""

import pytest

from experiments.gaussian_process import report
from experiments.gaussian_process.plan import CASES


def test_a_row_has_the_figures_of_its_runs(folder):
    rows = report.table(folder).splitlines()[2:]
    assert len(rows) == 5
    cells = [cell.strip() for cell in rows[1].strip("|").split("|")]
    # Errors 0.5, 0.65, 0.1 of gaps 0.5672 and 0.8; minus those of T = 1, 0.6 and 0.7.
    assert cells == [
        *("1d", "1", "CEM, T = 2", "1,234", "3", "0.645"),
        *("102.85 ± 124.52", "72.92 ± 88.28", "+13.22 ± 56.01", "20"),
    ]
    assert "| MHA | 1,234 | 1 | 0.775 | 70.52 | 50.00 | +17.63 |" in rows[2]


def test_every_kind_of_the_plan_has_a_label():
    labels = [report.label(case.kind) for case in CASES.values()]
    assert labels[10:13] == [
        f"CEM, T = 4, {part}" for part in ("preconditioner", "shared diagonal", "both")
    ]
    assert labels[13:16] == [f"CEM, T = {steps}, eta of each step" for steps in (2, 4, 8)]


def test_the_report_replaces_its_section_and_draws_both_figures(folder, tmp_path):
    readme, out = tmp_path / "README.md", tmp_path / "figures"
    readme.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write_report(folder, readme, out)
    first, pictures = readme.read_text(), {path.name: path.read_bytes() for path in out.iterdir()}
    assert first.startswith("before\n")
    assert first.endswith(f"{report.END}\nafter\n")
    assert "old" not in first
    assert "8 of 95 runs are finished" in first
    assert pictures.keys() == {
        f"{name}.{suffix}"
        for name in ("rmse-against-position", "gap-against-steps")
        for suffix in ("png", "svg")
    }
    report.write_report(folder, readme, out)
    assert readme.read_text() == first
    assert {path.name: path.read_bytes() for path in out.iterdir()} == pictures


def test_a_readme_without_a_place_is_refused(folder, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("nothing here")
    with pytest.raises(ValueError, match="expected both; put them back"):
        report.write_report(folder, readme, tmp_path / "figures")
