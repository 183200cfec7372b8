"""What a lab may say, and what becomes of it: partial, repeated, out of order, revised, retracted, senseless, late."""

import threading

import pytest
import torch
from sqlmodel import select

from aliquot.campaigns import rewarding
from aliquot.campaigns.collecting import apply
from aliquot.campaigns.rewarding import Known, revise_designs, valued
from aliquot.campaigns.run import CampaignRun
from aliquot.campaigns.spec import Rewarding
from aliquot.domain import Design, Measurement, Objective, Outcome, Quality
from aliquot.lab_adapters.sdk import Delivery
from aliquot.ledger import AttemptRow, EventRow, ExperimentRow, InboxRow, MeasurementRow, ProposalRow, RewardRow
from tests.campaigns.tiny import spec

TWO = {
    "objective": {
        "targets": [
            {"assay": "binding", "desirability": {"type": "ramp", "low": 0.0, "high": 1.0}},
            {"assay": "yield", "desirability": {"type": "ramp", "low": 0.0, "high": 100.0}, "failure_value": 10.0},
        ],
        "combine": "arithmetic",
    },
    "lab": {
        "type": "simulated",
        "assays": [
            {"name": n, "unit": u, "truth": {"type": "motif", "motifs": ["GAT"]}, "replicates": 2, "noise": 0.1,
             "latency": {"type": "lognormal", "median_hours": 1000, "sigma": 0.1}}
            for n, u in (("binding", "fraction"), ("yield", "%"))
        ],
    },
    "learning": {"enabled": False},
}  # fmt: skip


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    """A campaign with its first experiments out, and a lab that will not speak by itself for weeks."""
    torch.set_num_threads(1)
    stop = threading.Event()
    stop.set()
    with CampaignRun.create(spec(**TWO, selecting={"per_round": 7}), tmp_path_factory.mktemp("facts") / "run") as run:
        run.run(lambda _: None, stop)
        context = run.context()
        yield context
        context.ladder.close()
        context.lab.close()


@pytest.fixture
def say(context, request):
    """Deliver something about one experiment (a fresh one for each test), and give its reward as it then stands."""
    number = 1 + ["twice", "revised", "retracted", "failed", "late", "stored", "same"].index(request.param)
    with context.ledger.read() as session:
        experiment = session.exec(select(ExperimentRow).where(ExperimentRow.number == number)).one()
        key = session.exec(select(AttemptRow.key).where(AttemptRow.experiment_id == experiment.id)).one()

    def deliver(delivery_id, *measurements, outcome=None, key=key):
        delivery = Delivery(
            delivery_id=f"{request.node.name}-{delivery_id}",
            key=key,
            measurements=measurements,
            outcome=outcome,
            sent_at=0.0,
        )
        with context.ledger.write() as session:
            touched, new = apply(context, session, [delivery], 1.0)
            session.flush()
            revise_designs(context, session, touched, 1.0)
        return new

    def reward():
        with context.ledger.read() as session:
            query = (
                select(RewardRow)
                .join(ProposalRow)
                .where(ProposalRow.experiment_id == experiment.id)
                .order_by(RewardRow.revision.desc())
            )
            return session.exec(query).first()

    deliver.reward, deliver.experiment = reward, experiment
    return deliver


def measured(assay, value, replicate=0, revision=0, **more):
    unit = {"binding": "fraction", "yield": "%"}[assay]
    return Measurement(
        assay=assay, value=value, unit=unit, replicate=replicate, revision=revision, measured_at=0.5, **more
    )


@pytest.mark.parametrize("say", ["twice"], indirect=True)
def test_parts_make_a_partial_reward_and_repetitions_change_nothing(say):
    assert say("a", measured("binding", 0.4)) == 1
    first = say.reward()
    assert first.status == "partial" and first.completeness == pytest.approx(0.25)
    assert say("a", measured("binding", 0.9)) == 0
    assert say("b", measured("binding", 0.9)) == 1  # another message, the same (assay, replicate, revision)
    assert say.reward().id == first.id
    say("c", measured("binding", 0.6, 1))
    say("d", measured("yield", 50.0), measured("yield", 70.0, 1), outcome=Outcome.MEASURED)
    last = say.reward()
    assert last.status == "final" and last.completeness == 1.0
    assert last.value == pytest.approx((0.5 + 0.6) / 2)


@pytest.mark.parametrize("say", ["revised"], indirect=True)
def test_a_revision_replaces_whatever_order_it_comes_in(say):
    say("b", measured("binding", 0.2, revision=1))
    say("a", measured("binding", 0.9))
    say("c", measured("binding", 0.4, 1), measured("yield", 0.0), measured("yield", 0.0, 1), outcome=Outcome.MEASURED)
    assert say.reward().value == pytest.approx((0.3 + 0.0) / 2)
    say("d", measured("yield", 100.0, revision=3))
    assert say.reward().status == "revised"
    assert say.reward().value == pytest.approx((0.3 + 0.5) / 2)


@pytest.mark.parametrize("say", ["retracted"], indirect=True)
def test_a_retraction_takes_the_reward_back_to_missing(say):
    say("a", measured("binding", 0.4), measured("binding", 0.4, 1), measured("yield", 50.0), measured("yield", 50.0, 1))
    assert say.reward().value == pytest.approx(0.45)
    taken = [measured("binding", None, r, revision=1, retracted=True) for r in (0, 1)]
    taken += [measured("yield", None, r, revision=1, retracted=True) for r in (0, 1)]
    say("b", *taken)
    assert say.reward().status == "retracted" and say.reward().value is None


@pytest.mark.parametrize("say", ["failed"], indirect=True)
def test_a_reported_failure_is_the_declared_value_and_an_unreported_one_is_missing(say):
    say("a", measured("yield", None, quality=Quality.FAILED), measured("yield", None, 1, quality=Quality.FAILED))
    assert say.reward().value is None  # binding is still out, and no surrogate is ready to fill it
    say("b", measured("binding", 0.5), measured("binding", 0.5, 1), outcome=Outcome.MEASURED)
    assert say.reward().value == pytest.approx((0.5 + 0.1) / 2)


@pytest.mark.parametrize("say", ["twice"], indirect=True)
def test_what_makes_no_sense_is_kept_in_quarantine_and_told(context, say):
    wrong_unit = measured("yield", 0.5).model_copy(update={"unit": "mg"})
    unknown = measured("yield", 0.5).model_copy(update={"assay": "colour"})
    say("a", wrong_unit), say("b", unknown), say("c", measured("yield", 1.0), key="nobody's")
    with context.ledger.read() as session:
        rows = session.exec(select(InboxRow).where(InboxRow.state == "quarantined")).all()
        told = session.exec(select(EventRow).where(EventRow.kind == "delivery_quarantined")).all()
        assert session.exec(select(MeasurementRow).where(MeasurementRow.unit == "mg")).all() == []
    assert len(rows) == len(told) == 3
    assert "measured in '%'" in rows[0].note and "no assay 'colour'" in rows[1].note and "nobody's" in rows[2].note


@pytest.mark.parametrize("say", ["late"], indirect=True)
def test_a_late_word_is_stored_and_the_first_terminal_fact_stands(context, say):
    whole = [measured("binding", 0.4, r) for r in (0, 1)] + [measured("yield", 50.0, r) for r in (0, 1)]
    say("whole", *whole, outcome=Outcome.MEASURED)
    with context.ledger.read() as session:
        before = session.get(ExperimentRow, say.experiment.id)
    assert before.state == "completed"
    say("a", measured("yield", 90.0, revision=9), outcome=Outcome.LAB_FAILURE)
    with context.ledger.read() as session:
        assert session.get(ExperimentRow, before.id).state == "completed"
        row = session.exec(select(MeasurementRow).where(MeasurementRow.revision == 9)).one()
    assert not row.late  # a correction of a result that came in time is no late result


@pytest.mark.parametrize("say", ["stored"], indirect=True)
def test_a_campaign_that_only_stores_late_results_still_heeds_a_retraction_of_a_timely_one(context, say, monkeypatch):
    monkeypatch.setattr(context, "spec", context.spec.model_copy(update={"rewarding": Rewarding(late="store")}))
    whole = [measured(assay, 0.4, r) for assay in ("binding", "yield") for r in (0, 1)]
    say("whole", *whole, outcome=Outcome.MEASURED)
    assert say.reward().value is not None
    taken = [measured(a, None, r, revision=1, retracted=True) for a in ("binding", "yield") for r in (0, 1)]
    say("back", *taken)
    assert say.reward().status == "retracted" and say.reward().value is None


@pytest.mark.parametrize("say", ["same"], indirect=True)
def test_a_retraction_under_the_same_revision_counts_and_another_value_under_it_is_told(context, say):
    say("a", measured("binding", 0.4))
    say("b", measured("binding", 0.7))
    with context.ledger.read() as session:
        told = session.exec(select(EventRow).where(EventRow.kind == "measurement_conflict")).all()
    assert any((one.data["kept"], one.data["said"]) == (0.4, 0.7) for one in told)
    say("c", measured("binding", None, retracted=True))
    assert say.reward().status == "retracted" and say.reward().value is None


@pytest.mark.parametrize("wrong", [{"measured_at": float("nan")}, {"replicate": 2**40}, {"value": 1.7e308}])
def test_a_measurement_that_no_database_or_mean_could_hold_is_refused_at_birth(wrong):
    with pytest.raises(ValueError, match="finite|less than"):
        Measurement(**{"assay": "binding", "value": 0.5, "unit": "fraction", "measured_at": 0.5} | wrong)


class Surrogate:
    """Says 0.3 ± 0.1 of everything."""

    ready = True

    def predict(self, designs, known):
        return [0.3] * len(designs), [0.1] * len(designs)


@pytest.mark.parametrize(
    ("missing", "ready", "value", "sd"),
    [
        ("impute", True, 0.3, 0.1),
        ("impute", False, None, None),
        ("wait", True, None, None),
        ("renormalise", True, 0.5, None),
    ],
)
def test_what_is_missing_is_treated_as_the_campaign_says(monkeypatch, missing, ready, value, sd):
    class Fake:
        spec = spec(**TWO, rewarding={"missing": missing})
        objective = Objective.model_validate(TWO["objective"])
        surrogate = Surrogate()

    Fake.surrogate.ready = ready
    known = Known(values={"binding": 0.5}, returned={"binding": 1.0})
    [one] = valued(Fake, [Design(kind="sequence", value="GAT")], [known])
    assert (one.value, one.uncertainty, one.completeness) == (value, sd, 0.5)
    assert one.status == rewarding.RewardStatus.PARTIAL
