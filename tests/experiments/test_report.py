"""What the report says of results, and that the committed pages are of the committed results."""

import pytest

from experiments import claims_table
from experiments.equal_time import equal_time
from experiments.figures import KINDS
from experiments.gaussian_process import report as gaussian_process
from experiments.language_model.collect import course
from experiments.language_model.records import deciding, figures, load_records
from experiments.pages import between, table
from experiments.report import README, RESULTS, page, with_claims
from experiments.tables import tuning_table


def record(variant, seed, bits, **more):
    return {"variant": variant, "seed": seed, "valid_bits_per_byte": bits, **more}


def test_claims_are_read_from_the_test_once_all_runs_have_it():
    both = record("a", 0, 1.0, test_bits_per_byte=2.0)
    assert deciding([both]) == "test_bits_per_byte"
    assert deciding([both, record("b", 0, 1.0)]) == "valid_bits_per_byte"
    assert deciding([]) == "valid_bits_per_byte"


def test_a_claim_is_the_paired_difference_of_its_variants(monkeypatch):
    bits = {
        "llama": (1.0, 1.2, 1.1, 1.0, 1.0),
        "mlp-nonlinear-t1": (1.005, 1.204, 1.106, 1.005, 1.005),
    }
    records = [
        record(name, seed, value)
        for name, values in bits.items()
        for seed, value in enumerate(values)
    ]
    monkeypatch.setattr(claims_table, "load_records", lambda: records)
    monkeypatch.setattr(claims_table.gap, "shares", dict)
    (row,) = [row for row in claims_table.rows() if row.key == "C2"]
    assert row.pairs == 5
    assert row.effect.startswith("+0.0050 [+0.0041, +0.0059]")
    assert row.verdict == "holds"
    assert "5 pairs" in row.run
    others = [row for row in claims_table.rows() if row.key in ("C1", "C7", "C8")]
    assert {row.verdict for row in others} == {"not run"}


def test_a_row_has_its_parameters_and_flops_beside_those_it_is_compared_with(monkeypatch):
    def costing(variant, parameters, flops, tokens):
        cost = {"parameters_without_embeddings": parameters, "forward_flops_per_token": flops}
        course = {"training": [[1, 1.0], [2, 1.0]]}
        return record(variant, 0, 1.0, **cost, train_tokens=tokens, course=course)

    records = [costing("llama-3527", 100, 10, 30), costing("cem-t2", 61, 30, 20)]
    monkeypatch.setattr(claims_table, "load_records", lambda: records)
    (row,) = [row for row in claims_table.rows() if "`cem-t2` minus `llama-3527`" in row.run]
    assert row.cost == "0.61, 2.00"


@pytest.mark.parametrize(
    ("seeds", "rise", "verdict"),
    [
        (5, 0.1, "holds"),
        (5, 0.11, "does not hold"),
        (4, 0.1, "open: not all seeds"),
        (4, 0.11, "does not hold"),
    ],
)
def test_a_training_is_stable_whose_loss_never_jumps(monkeypatch, seeds, rise, verdict):
    def run(seed, jump):
        losses = [7.0, 5.0, 4.0, 4.0 + jump, 3.0]
        course = {"training": [[50 * n, loss] for n, loss in enumerate(losses, 1)]}
        return record("cem-t2", seed, 1.0, course=course)

    runs = [run(seed, rise if seed == 1 else 0.01) for seed in range(seeds)]
    monkeypatch.setattr(claims_table, "load_records", lambda: runs)
    monkeypatch.setattr(claims_table, "_costs", lambda records: {})
    row, other = [row for row in claims_table.rows() if "largest rise" in row.run]
    assert row.effect == f"{rise:+.3f} nats in {seeds} runs"
    assert row.verdict == verdict
    assert other.verdict == "not run"


def test_equal_time_reads_the_llama_between_its_two_lengths():
    values = {
        "llama": {0: 2.0, 1: 2.2},
        "llama-3527": {0: 1.8, 1: 2.0, 7: 0.0},
        "cem": {0: 1.95, 1: 2.15},
    }
    half = (3527 / 2000) ** 0.5
    found = equal_time("cem", half, values)
    assert found.effect.pairs == 2
    assert found.effect.mean == pytest.approx(0.05)
    assert found.steps == pytest.approx(2000 * half)
    assert not found.extrapolated
    assert equal_time("cem", 1.0, values).effect.mean == pytest.approx(-0.05)
    assert equal_time("cem", 2.0, values).extrapolated
    assert equal_time("other", 1.0, values).effect.pairs == 0


def test_more_of_the_gap_is_better(monkeypatch):
    shares = {
        "1d-1layer-cem-t2": {0: 0.5, 1: 0.52, 2: 0.51, 3: 0.5, 4: 0.5},
        "1d-1layer-cem-t4": {0: 0.6, 1: 0.63, 2: 0.61, 3: 0.6, 4: 0.6},
        "1d-1layer-cem-t8": {0: 0.5, 1: 0.52, 2: 0.51, 3: 0.5, 4: 0.5},
    }
    monkeypatch.setattr(claims_table.gap, "shares", lambda: shares)
    monkeypatch.setattr(claims_table, "load_records", list)
    first, second, *_ = [row for row in claims_table.rows() if row.key == "C8"]
    assert first.effect.startswith("+10.20 [+9.64")
    assert first.verdict == "holds"
    assert second.verdict == "does not hold"


def test_the_course_keeps_means_and_the_last_step():
    records = [{"step": n, "loss": float(n)} for n in range(1, 81)]
    kept = course([*records, {"step": 80, "valid_loss": 3.0}])
    assert kept["training"][0] == [2, 1.5]
    assert kept["training"][-1] == [80, 79.5]
    assert kept["validation"] == [[80, 3.0]]


def test_figures_are_found_by_variant_and_seed():
    records = [record("a", 1, 2.0), record("a", 0, 1.0), record("b", 0, 3.0)]
    assert figures(records, "valid_bits_per_byte") == {"a": {1: 2.0, 0: 1.0}, "b": {0: 3.0}}
    assert figures(records, "test_bits_per_byte") == {}


def test_every_variant_of_the_claims_has_a_kind_in_the_figure():
    assert {record["variant"].split("-")[0] for record in load_records()} <= {*KINDS}


def test_a_table_has_a_rule_below_its_header():
    assert table(["a", "b"], [["1", 2]]) == "| a | b |\n| --- | ---: |\n| 1 | 2 |\n"
    assert "| --- | --- |" in table(["a", "b"], [], 2)


def test_the_best_trial_of_each_family_is_bold():
    names = {"cem-0.1": 2.0, "cem-t2-0.1": 1.5, "cem-t2-0.1-eta-2": 1.4, "plain": 3.0}
    lines = tuning_table([record(name, 0, bits) for name, bits in names.items()]).splitlines()
    assert [line for line in lines if "**" in line] == [
        "| `cem-0.1` | **2.0000** |",
        "| `cem-t2-0.1-eta-2` | **1.4000** |",
        "| `plain` | **3.0000** |",
    ]


def test_a_section_is_put_between_its_marks():
    assert between("a <x> old <y> b", "<x>", "<y>", "new") == "a <x>\n\nnew\n<y> b"


def test_the_committed_pages_are_of_the_committed_results():
    assert RESULTS.read_text("utf-8") == page(), "run python -m experiments.report"
    text = README.read_text("utf-8")
    assert with_claims(text) == text, "run python -m experiments.report"
    text = gaussian_process.README.read_text("utf-8")
    assert gaussian_process.with_result(text) == text, "run python -m experiments.report"
    with pytest.raises(ValueError, match="expected both; put them back"):
        with_claims("no marks")
