"""What a campaign may rely on, whatever the simulated lab throws at it."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest
from pydantic import ValidationError

from aliquot.clock import EPOCH, HOUR, VirtualClock
from aliquot.domain import MoleculeSpace, Outcome, Quality, SequenceSpace
from aliquot.lab_adapters.sdk import LabError, LabRefused, LabStatus, Submission
from aliquot.lab_adapters.simulated import SimulatedLab, SimulatedLabConfig

SPACE = SequenceSpace(alphabet="protein", max_length=30)
DESIGN = SPACE.design("KLFKW")


def assay(name: str = "binding", **changes) -> dict:
    plain = {
        "name": name,
        "unit": "kcal/mol",
        "truth": {"type": "motif", "motifs": ["KLF"], "low": 0.0, "high": 10.0},
        "latency": {"type": "lognormal", "median_hours": 10.0, "sigma": 0.0},
    }
    return plain | changes


def lab_of(*assays: dict, clock: VirtualClock | None = None, **changes) -> SimulatedLab:
    config = SimulatedLabConfig.model_validate({"assays": list(assays) or [assay()]} | changes)
    return SimulatedLab(config, clock or VirtualClock())


def submit(lab: SimulatedLab, *keys: str, design=DESIGN) -> None:
    for key in keys:
        lab.submit(Submission(key=key, design=design, assays=tuple(a.name for a in lab.config.assays)))


def run_dry(lab: SimulatedLab) -> list:
    """Every delivery, each fetched at the moment the lab said it would come."""
    cursor, seen = "", []
    while (moment := lab.next_event_at()) is not None:
        lab.clock.wait_until(moment)
        page = lab.results(cursor)
        assert page.deliveries, "an announced event brings something"
        seen, cursor = [*seen, *page.deliveries], page.cursor
    return seen


def everything(lab: SimulatedLab) -> list:
    """Every delivery, fetched at once after a hundred years."""
    lab.clock.wait_until(EPOCH + 876_600 * HOUR)
    return list(lab.results("").deliveries)


def hours(moment: float) -> float:
    return (moment - EPOCH) / HOUR


def test_replicates_come_one_by_one_and_the_last_carries_the_outcome():
    lab = lab_of(assay(replicates=4))
    submit(lab, "a")
    deliveries = run_dry(lab)
    assert [hours(d.sent_at) for d in deliveries] == pytest.approx([2.5, 5.0, 7.5, 10.0])
    assert [d.outcome for d in deliveries] == [None, None, None, Outcome.MEASURED]
    assert [d.measurements[0].replicate for d in deliveries] == [0, 1, 2, 3]
    assert [d.measurements[0].value for d in deliveries] == [10.0] * 4
    assert all(d.measurements[0].measured_at == d.sent_at for d in deliveries)


def test_nothing_is_told_before_it_happens():
    lab = lab_of(assay(replicates=2))
    submit(lab, "a")
    assert lab.results("").deliveries == () and lab.status("a") is LabStatus.RUNNING
    lab.clock.wait_until(EPOCH + 5 * HOUR)
    assert len(lab.results("").deliveries) == 1 and lab.status("a") is LabStatus.RUNNING
    lab.clock.wait_until(EPOCH + 10 * HOUR)
    assert len(lab.results("").deliveries) == 2 and lab.status("a") is LabStatus.DONE


def test_a_cursor_gives_each_delivery_once_in_order_and_an_old_cursor_gives_them_again():
    lab = SimulatedLab(SimulatedLabConfig(preset="druglike", seed=4), VirtualClock())
    molecules = MoleculeSpace()
    for i, smiles in enumerate(["CCO", "c1ccccc1", "CCN", "CC(=O)O", "CCOC", "c1ccncc1"]):
        submit(lab, f"k{i}", design=molecules.design(smiles))
    one_by_one = run_dry(lab)
    assert one_by_one == sorted(one_by_one, key=lambda d: d.sent_at)
    assert len({d.delivery_id for d in one_by_one}) == len(one_by_one)
    assert list(lab.results("").deliveries) == one_by_one
    page = lab.results("")
    assert lab.results(page.cursor).deliveries == () and lab.results(page.cursor).cursor == page.cursor


def test_a_foreign_cursor_is_a_lab_error():
    with pytest.raises(LabError, match="'seven' is not a cursor of this lab"):
        lab_of().results("seven")


def test_the_same_key_twice_is_one_execution():
    lab = lab_of(assay(noise=1.0))
    submit(lab, "a", "a")
    lab.clock.wait_until(EPOCH + HOUR)
    submit(lab, "a")
    assert len(run_dry(lab)) == 1


def test_a_key_of_another_experiment_is_refused():
    lab = lab_of()
    submit(lab, "a")
    with pytest.raises(LabRefused, match="key a was used for another experiment"):
        submit(lab, "a", design=SPACE.design("GGG"))


def test_the_lab_survives_a_crash_of_its_process(tmp_path):
    path, clock = tmp_path / "deep" / "lab.sqlite", VirtualClock()
    whole = lab_of(assay(noise=1.0, replicates=3), seed=7)
    first = lab_of(assay(noise=1.0, replicates=3), seed=7, clock=clock, path=path)
    for lab in (whole, first):
        submit(lab, "a", "b")
    clock.wait_until(first.next_event_at())
    page = first.results("")
    second = lab_of(assay(noise=1.0, replicates=3), seed=7, clock=clock, path=path)  # `first` was never closed
    assert second.reconcile(["a", "b", "c"]) == {
        "a": LabStatus.RUNNING,
        "b": LabStatus.RUNNING,
        "c": LabStatus.UNKNOWN,
    }
    submit(second, "a")
    run_dry(second)
    assert [*page.deliveries, *second.results(page.cursor).deliveries] == run_dry(whole)


def test_a_file_that_is_something_else_is_left_alone(tmp_path):
    path = tmp_path / "ledger.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE campaigns (id)")
    before = path.read_bytes()
    lab = lab_of(path=path)
    with pytest.raises(LabError, match="is not a simulated lab's file"):
        submit(lab, "a")
    assert path.read_bytes() == before and not lab.health().ok


def test_a_history_is_a_function_of_seed_design_and_key_alone():
    settings = {"noise": 1.0, "replicates": 2, "revision": 0.5, "batch_effect": 0.5}
    settings["latency"] = {"type": "lognormal", "median_hours": 10.0, "sigma": 1.0}

    def history(seed: int, *keys: str) -> list:
        lab = lab_of(assay(**settings), seed=seed)
        submit(lab, *keys)
        return [d for d in run_dry(lab) if d.key == "a"]

    assert history(1, "a") == history(1, "a") == history(1, "c", "a", "b")
    assert history(1, "a") != history(2, "a")


def test_adding_an_assay_changes_nothing_of_the_others():
    noisy = assay(noise=1.0, replicates=2)

    def values(*assays: dict) -> list:
        lab = lab_of(*assays)
        submit(lab, "a")
        return [m.value for d in run_dry(lab) for m in d.measurements if m.assay == "binding"]

    assert values(noisy) == values(assay("toxicity"), noisy)


def test_two_attempts_at_one_design_are_two_measurements():
    lab = lab_of(assay(noise=1.0))
    submit(lab, "first", "second")
    one, other = run_dry(lab)
    assert one.measurements[0].value != other.measurements[0].value


def test_noise_and_batch_effect_have_the_declared_size_and_the_lab_says_so():
    lab = lab_of(assay(noise=0.3, batch_effect=0.4, replicates=2), seed=2)
    submit(lab, *(f"k{i}" for i in range(2000)))
    values: dict[str, list[float]] = {}
    for delivery in everything(lab):
        (measurement,) = delivery.measurements
        assert measurement.standard_error == pytest.approx(0.5)
        values.setdefault(delivery.key, []).append(measurement.value)
    pairs = np.array(list(values.values()))
    assert pairs.mean() == pytest.approx(10.0, abs=0.04)
    assert (pairs[:, 0] - pairs[:, 1]).std() == pytest.approx(0.3 * 2**0.5, rel=0.06)
    assert np.cov(pairs.T)[0, 1] == pytest.approx(0.16, rel=0.15)


def test_latencies_are_log_normal_with_the_declared_median():
    lab = lab_of(assay(latency={"type": "lognormal", "median_hours": 72.0, "sigma": 0.5}))
    submit(lab, *(f"k{i}" for i in range(2000)))
    logs = np.log([hours(d.sent_at) for d in everything(lab)])
    assert np.exp(np.median(logs)) == pytest.approx(72.0, rel=0.05)
    assert logs.std() == pytest.approx(0.5, rel=0.06)


def test_empirical_latencies_are_those_observed():
    lab = lab_of(assay(latency={"type": "empirical", "hours": [1.0, 5.0, 30.0]}))
    submit(lab, *(f"k{i}" for i in range(60)))
    assert {round(hours(d.sent_at), 9) for d in run_dry(lab)} == {1.0, 5.0, 30.0}
    assert lab.describe().assays[0].typical_hours == 5.0


def test_a_reported_lab_failure_ends_the_experiment_without_a_value():
    lab = lab_of(failure=1.0)
    submit(lab, "a")
    (delivery,) = run_dry(lab)
    assert delivery.outcome is Outcome.LAB_FAILURE and delivery.measurements == ()
    assert lab.status("a") is LabStatus.FAILED


def test_a_failed_assay_is_reported_and_the_others_are_measured():
    lab = lab_of(assay("bad", failure=1.0), assay("good"))
    submit(lab, "a")
    by_assay = {d.measurements[0].assay: d.measurements[0] for d in run_dry(lab)}
    assert by_assay["bad"].value is None and by_assay["bad"].quality is Quality.FAILED
    assert by_assay["good"].value == 10.0
    assert lab.status("a") is LabStatus.DONE


def test_when_every_assay_fails_the_experiment_did():
    lab = lab_of(assay("one", failure=1.0), assay("other", failure=1.0))
    submit(lab, "a")
    assert [d.outcome for d in run_dry(lab)] == [None, Outcome.LAB_FAILURE]
    assert lab.status("a") is LabStatus.FAILED


def test_an_assay_that_never_answers_leaves_the_experiment_running():
    lab = lab_of(assay("lost", dropout=1.0), assay("kept"))
    submit(lab, "a")
    assert [(d.measurements[0].assay, d.outcome) for d in run_dry(lab)] == [("kept", None)]
    lab.clock.wait_until(EPOCH + 10_000 * HOUR)
    assert lab.status("a") is LabStatus.RUNNING and lab.next_event_at() is None


def test_a_dropped_experiment_is_never_heard_of_again():
    lab = lab_of(dropout=1.0)
    submit(lab, "a")
    assert lab.next_event_at() is None and lab.status("a") is LabStatus.RUNNING


def test_a_revision_corrects_a_gross_error_after_the_experiment_has_ended():
    lab = lab_of(assay(revision=1.0, gross_error=5.0))
    submit(lab, "a")
    first, second = run_dry(lab)
    assert first.outcome is Outcome.MEASURED and second.outcome is None
    assert (first.measurements[0].revision, second.measurements[0].revision) == (0, 1)
    assert first.measurements[0].value != 10.0 and second.measurements[0].value == 10.0
    assert hours(second.sent_at) == pytest.approx(20.0)
    assert lab.status("a") is LabStatus.DONE


def test_probabilities_are_kept():
    lab = lab_of(assay(dropout=0.1, failure=0.2, revision=0.3), failure=0.05)
    submit(lab, *(f"k{i}" for i in range(2500)))
    deliveries = everything(lab)
    lab_failures = sum(d.outcome is Outcome.LAB_FAILURE and not d.measurements for d in deliveries)
    assert lab_failures / 2500 == pytest.approx(0.05, abs=0.012)
    first = [m for d in deliveries for m in d.measurements if m.revision == 0]
    assert len(first) / 2500 == pytest.approx(0.95 * 0.9, abs=0.02)
    assert sum(m.value is None for m in first) / len(first) == pytest.approx(0.2, abs=0.025)
    revised = sum(m.revision == 1 for d in deliveries for m in d.measurements)
    assert revised / len(first) == pytest.approx(0.8 * 0.3, abs=0.025)


def test_experiments_queue_for_a_slot_first_come_first_served():
    lab = lab_of(capacity=2)
    submit(lab, "a", "b", "c", "d", "e")
    assert [lab.status(k) for k in "abcde"] == [LabStatus.RUNNING] * 2 + [LabStatus.QUEUED] * 3
    assert [(d.key, round(hours(d.sent_at), 9)) for d in run_dry(lab)] == [
        ("a", 10.0), ("b", 10.0), ("c", 20.0), ("d", 20.0), ("e", 30.0),
    ]  # fmt: skip


def test_a_cancelled_experiment_gives_its_place_to_the_next():
    lab = lab_of(capacity=1)
    submit(lab, "a", "b", "c")
    lab.clock.wait_until(EPOCH + 4 * HOUR)
    assert lab.cancel("a") is LabStatus.CANCELLED  # holds the slot
    assert lab.cancel("b") is LabStatus.CANCELLED  # waits for it
    assert lab.status("c") is LabStatus.RUNNING
    ends = {d.key: (d.outcome, round(hours(d.sent_at), 9)) for d in [*lab.results("").deliveries, *run_dry(lab)]}
    assert ends == {
        "a": (Outcome.CANCELLED, 4.0),
        "b": (Outcome.CANCELLED, 4.0),
        "c": (Outcome.MEASURED, 14.0),
    }


def test_never_more_experiments_at_work_than_slots_and_no_slot_idle_while_some_queue():
    lab = lab_of(assay(latency={"type": "lognormal", "median_hours": 10.0, "sigma": 1.0}), capacity=3, seed=5)
    keys = [f"k{i}" for i in range(40)]
    submit(lab, *keys)
    cancelled = 0
    while (moment := lab.next_event_at()) is not None:
        lab.clock.wait_until(moment)
        states = list(lab.reconcile(keys).values())
        assert states.count(LabStatus.RUNNING) <= 3
        assert states.count(LabStatus.RUNNING) == 3 or LabStatus.QUEUED not in states
        if cancelled < 10:
            lab.cancel(keys[3 * cancelled + 2])
            cancelled += 1
    assert {s for s in lab.reconcile(keys).values()} == {LabStatus.DONE, LabStatus.CANCELLED}


def test_a_silent_experiment_gives_its_slot_back_once_the_work_was_done():
    lab = lab_of(assay("lost", dropout=1.0), capacity=1)
    submit(lab, "a", "b")
    assert lab.status("b") is LabStatus.QUEUED
    lab.clock.wait_until(EPOCH + 10 * HOUR)
    assert lab.status("b") is LabStatus.RUNNING


def test_the_first_terminal_fact_wins():
    lab = lab_of()
    submit(lab, "done", "stopped")
    assert lab.cancel("stopped") is LabStatus.CANCELLED
    lab.clock.wait_until(EPOCH + 10 * HOUR)
    assert lab.cancel("done") is LabStatus.DONE
    assert lab.cancel("stopped") is LabStatus.CANCELLED
    assert lab.cancel("never came") is LabStatus.UNKNOWN
    assert sorted((d.key, d.outcome) for d in lab.results("").deliveries) == [
        ("done", Outcome.MEASURED),
        ("stopped", Outcome.CANCELLED),
    ]


def test_a_cancellation_keeps_the_corrections_of_what_was_said():
    lab = lab_of(assay(revision=1.0, gross_error=5.0, replicates=2))
    submit(lab, "a")
    lab.clock.wait_until(EPOCH + 5 * HOUR)  # replicate 0 is out, and wrong
    lab.cancel("a")
    run_dry(lab)
    said = [(d.delivery_id, d.outcome) for d in lab.results("").deliveries]
    assert said == [("a/binding/0/0", None), ("a/cancelled", Outcome.CANCELLED), ("a/binding/0/1", None)]


def test_a_cancellation_is_heard_after_a_poll_of_the_same_moment():
    lab = lab_of()
    submit(lab, "a", "b")
    lab.clock.wait_until(lab.next_event_at())
    page = lab.results("")
    submit(lab, "c")
    lab.cancel("c")
    assert [d.key for d in lab.results(page.cursor).deliveries] == ["c"]


def test_what_the_lab_cannot_do_is_refused_with_the_reason():
    lab = lab_of()
    with pytest.raises(LabRefused, match="assays asked for: smell; this lab has binding"):
        lab.submit(Submission(key="a", design=DESIGN, assays=("smell",)))
    with pytest.raises(LabRefused, match="assays asked for: none"):
        lab.quote(DESIGN, ())
    with pytest.raises(LabRefused, match="this lab takes sequence, not molecule"):
        submit(lab, "a", design=MoleculeSpace().design("CCO"))
    assert lab.status("a") is LabStatus.UNKNOWN


def test_a_quote_adds_the_money_and_takes_the_slowest():
    slow = assay("slow", cost=50.0, latency={"type": "lognormal", "median_hours": 72.0})
    quote = lab_of(assay("quick", cost=5.0), slow).quote(DESIGN, ("quick", "slow"))
    assert (quote.experiments, quote.money, quote.hours) == (1, 55.0, 72.0)


def test_the_true_value_is_free_of_noise():
    lab = lab_of(assay(noise=3.0), assay("other", noise=3.0))
    assert lab.true_value(DESIGN) == {"binding": 10.0, "other": 10.0}


def test_the_druglike_preset_is_the_three_assays_and_written_fields_win():
    config = SimulatedLabConfig(preset="druglike", failure=0.5, capacity=8)
    assert [(a.name, a.latency.median_hours, a.replicates, a.cost) for a in config.assays] == [
        ("potency", 72.0, 2, 50.0),
        ("solubility", 24.0, 2, 10.0),
        ("permeability", 8.0, 1, 5.0),
    ]
    assert (config.failure, config.capacity) == (0.5, 8)
    assert SimulatedLabConfig(preset="druglike").failure == 0.03
    assert SimulatedLabConfig.model_validate(config.model_dump(mode="json")) == config


def test_assays_of_one_lab_have_different_names_and_a_kind_in_common():
    with pytest.raises(ValidationError, match="twice: binding"):
        lab_of(assay(), assay())
    with pytest.raises(
        ValidationError, match="no kind of design suits every assay: binding takes sequence; x takes mol"
    ):
        lab_of(assay(), assay("x", truth={"type": "esol"}))
