from __future__ import annotations

import csv
import json

import pytest
import yaml
from sqlmodel import select

from aliquot.campaigns.leavings import write_results
from aliquot.campaigns.results import results, summary, write_csv
from aliquot.ledger import CampaignRow, DesignRow


@pytest.fixture
def rows(by_hand):
    return {row["number"]: row for row in results(*by_hand)}


def test_there_is_one_row_for_each_experiment_and_all_have_the_same_columns(rows):
    assert list(rows) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert len({tuple(row) for row in rows.values()}) == 1


def test_replicates_are_averaged_and_their_errors_combined(rows):
    row = rows[1]
    assert row["potency [pIC50]"] == pytest.approx(6.5)
    assert row["potency_standard_error [pIC50]"] == pytest.approx(0.25)  # √(0.3² + 0.4²) / 2
    assert row["potency_replicates"] == 2
    assert row["potency_desirability"] == pytest.approx(0.625)
    assert row["solubility_desirability"] == pytest.approx(0.75)
    assert row["objective"] == pytest.approx(0.6846532, abs=1e-6)
    assert (row["reward_status"], row["completeness"]) == ("final", 1.0)


def test_a_part_that_is_missing_is_an_empty_cell_not_zero(rows):
    row = rows[2]
    assert (row["potency [pIC50]"], row["potency_standard_error [pIC50]"]) == (5.0, None)
    assert row["solubility [logS]"] is None and row["solubility_desirability"] is None
    assert (row["reward_status"], row["objective"], row["completeness"]) == ("partial", 0.4, 0.5)


def test_a_failure_of_the_chemistry_has_no_value_and_the_failure_s_desirability(rows):
    row = rows[3]
    assert row["potency [pIC50]"] is None and row["potency_desirability"] == 0.0
    assert (row["state"], row["outcome"], row["reason"]) == ("failed", "lab_failure", "precipitated")


def test_what_never_came_back_is_told_with_its_reason(rows):
    row = rows[4]
    assert (row["potency [pIC50]"], row["potency_desirability"], row["potency_replicates"]) == (None, None, 0)
    assert (row["outcome"], row["first_result_at"]) == ("timed_out", None)


def test_a_revision_replaces_and_a_retraction_takes_back(rows):
    assert rows[5]["potency [pIC50]"] == 7.0
    assert rows[5]["objective"] == pytest.approx(0.8660254, abs=1e-6)
    assert rows[5]["reward_status"] == "revised"
    assert rows[6]["potency [pIC50]"] is None and rows[6]["potency_replicates"] == 0
    assert rows[6]["solubility_desirability"] == pytest.approx(0.5)


def test_a_row_says_who_proposed_it_and_with_which_chance(rows):
    assert rows[1]["sources"] == "fresh, person"
    assert (rows[1]["policy_version"], rows[1]["selection_probability"]) == (1, 0.25)
    assert (rows[1]["predicted_mean"], rows[1]["predicted_sd"]) == (0.5, 0.2)


def test_times_are_lab_clock_and_hours_since_the_campaign_began(rows):
    row = rows[1]
    assert (row["dispatched_at"], row["dispatched_hours"]) == ("2026-01-01T02:00:00Z", 2.0)
    assert (row["first_result_at"], row["first_result_hours"]) == ("2026-01-01T08:00:00Z", 8.0)
    assert (row["ended_at"], row["ended_hours"]) == ("2026-01-02T06:00:00Z", 30.0)
    assert rows[8]["dispatched_at"] is None


def test_the_summary_adds_up_by_hand(by_hand):
    said = summary(*by_hand)
    assert said["validity_by_quarter"] == pytest.approx([2 / 3, 1.0, 1.0, 3 / 5])
    first = (0.6846532 + 0.4 + 0.0) / 3
    assert said["rewards"]["mean_by_quarter"] == pytest.approx([first, 0.15, (0.8660254 + 0.45) / 3, 0.0], abs=1e-6)
    assert (said["learning"]["applied"], said["learning"]["masked"]) == pytest.approx((0.75, -0.65))
    fresh = next(d for d in said["learning"]["dispositions"] if d["tier"] == "fresh")
    assert fresh == {
        "tier": "fresh", "reason": "", "number": 2, "applied": 0.5, "masked": 0.0, "applied_size": 1.5,
        "masked_size": 0.0,
    }  # fmt: skip
    assert said["times"] == {"began_at": "2026-01-01T00:00:00Z", "lab_clock": "2026-01-06T00:00:00Z", "lab_days": 5.0}
    assert (said["seed"], said["best"]["experiment"]) == (5, 5)


def test_conditions_have_one_column_for_each_parameter_with_its_unit(by_hand_copy):
    ledger, campaign_id = by_hand_copy
    with ledger.write() as session:
        campaign = session.get(CampaignRow, campaign_id)
        parameters = [{"name": "temperature", "unit": "°C"}, {"name": "solvent"}]
        campaign.spec = campaign.spec | {"space": {"type": "conditions", "parameters": parameters}}
        for row in session.exec(select(DesignRow)):
            row.kind, row.value = "conditions", {"temperature": 40.0, "solvent": "water"}
            session.add(row)
    row = results(ledger, campaign_id)[0]
    assert (row["design.temperature [°C]"], row["design.solvent"]) == (40.0, "water")
    assert row["design"] == "temperature=40.0, solvent=water"


def test_csv_keeps_missing_apart_from_zero(tmp_path):
    write_csv(tmp_path / "r.csv", [{"a": None, "b": 0.0, "c": "x,y"}, {"a": 1 / 3, "b": -2.5, "c": ""}])
    with (tmp_path / "r.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [
            {"a": "", "b": "0", "c": "x,y"},
            {"a": "0.33333333", "b": "-2.5", "c": ""},
        ]


def test_a_folder_holds_all_four_files_and_nothing_half_written(by_hand, tmp_path):
    folder = tmp_path / "out"
    paths = write_results(folder, *by_hand)
    assert sorted(folder.iterdir()) == sorted(paths)
    assert [p.name for p in paths] == ["results.csv", "summary.json", "config.yaml", "report.html"]
    assert json.loads((folder / "summary.json").read_text())["name"] == "By hand"
    assert yaml.safe_load((folder / "config.yaml").read_text())["seed"] == 5
