"""What the ledger's newest rows say: each once, and none that is not there."""

import math

import pytest

from aliquot.domain import MoleculeSpace, Objective, SequenceSpace
from aliquot.ledger import (
    CampaignRow,
    DesignRow,
    ExperimentRow,
    GroupRow,
    InboxRow,
    Ledger,
    LineageRow,
    MeasurementRow,
    ObjectiveRow,
    PolicyVersionRow,
    ProposalRow,
    RewardRow,
    TrajectoryRow,
    VerdictRow,
)
from aliquot.trainer.monitors.facts import LEAST_PROPOSALS, NewestDesigns, birge_ratio, components, shape

SPACE = SequenceSpace(alphabet="dna", min_length=2, max_length=6)
OBJECTIVE = Objective.model_validate(
    {
        "targets": [
            {"assay": "yield", "desirability": {"type": "ramp", "low": 0, "high": 10}},
            {"verifier": "purity", "direction": "minimise", "desirability": {"type": "ramp", "low": 0, "high": 1}},
        ]
    }
)


class Campaign:
    """A ledger that a test writes into."""

    def __init__(self, folder):
        self.ledger, self.groups = Ledger(folder / "ledger.db"), 0
        self.newest = NewestDesigns(1)
        self.write(CampaignRow(name="c", spec={}, clock=0.0, created_at=0.0))
        self.write(ObjectiveRow(campaign_id=1, version=1, spec=OBJECTIVE.model_dump(mode="json"), created_at=0.0))
        self.write(LineageRow(campaign_id=1, created_at=0.0))
        self.write(PolicyVersionRow(campaign_id=1, lineage_id=1, step=0, weights="w", created_at=0.0))

    def write(self, row):
        with self.ledger.write() as session:
            session.add(row)
            session.flush()
            return row.id if hasattr(row, "id") else None

    def follow(self):
        with self.ledger.read() as session:
            return self.newest.follow(session)

    def propose(self, texts, **changes):
        """One group; None is a proposal that names no design. Returns the proposals' ids."""
        self.groups += 1
        with self.ledger.write() as session:
            session.add(group := GroupRow(campaign_id=1, number=self.groups, source="p", created_at=0.0))
            session.flush()
            rows = []
            for position, text in enumerate(texts):
                trajectory = TrajectoryRow(campaign_id=1, digest="d", policy_version=1, tokens=3, sealed=b"")
                session.add(trajectory)
                session.flush()
                row = dict(
                    campaign_id=1, group_id=group.id, position=position, trajectory_id=trajectory.id,
                    text=text or "?", design_key=text and self.know(session, text), created_at=0.0,
                )  # fmt: skip
                rows.append(ProposalRow(**row | changes))
            session.add_all(rows)
            session.flush()
            return [row.id for row in rows]

    def know(self, session, text):
        """The key of a design that the ledger knows from now on."""
        design = SPACE.design(text)
        session.merge(DesignRow(key=design.key, kind=design.kind, value=design.value))
        session.flush()
        return design.key

    def measure(self, text, predicted, reward, replicates, score=None, status="final"):
        """An experiment on a proposal of its own, with (value, standard error) of each replicate."""
        with self.ledger.write() as session:
            key = self.know(session, text)
        experiment = ExperimentRow(
            campaign_id=1, number=self.groups + 1, design_key=key, lab="l", assays=["yield"], selected_at=0.0
        )
        number = self.write(experiment)
        delivery = InboxRow(campaign_id=1, lab="l", delivery_id=str(number), body={}, state="applied", received_at=0.0)
        inbox = self.write(delivery)
        (proposal,) = self.propose([text], state="selected", experiment_id=number, predicted_mean=predicted)
        for i, (value, error) in enumerate(replicates):
            self.write(
                MeasurementRow(
                    experiment_id=number, inbox_id=inbox, assay="yield", replicate=i, revision=0, value=value,
                    unit="%", standard_error=error, quality="good", measured_at=0.0, received_at=0.0,
                )
            )  # fmt: skip
        if score is not None:
            self.write(
                VerdictRow(
                    campaign_id=1, design_key=key, verifier="purity", plugin_version="1", digest="d",
                    score=score, accepted=True, details={}, controls=[], seconds=0.0, cost=0.0, created_at=0.0,
                )
            )  # fmt: skip
        self.write(
            RewardRow(
                campaign_id=1, proposal_id=proposal, objective_version=1, revision=0, status=status, value=reward,
                completeness=1.0, created_at=0.0,
            )
        )  # fmt: skip
        return number, inbox


@pytest.fixture
def campaign(tmp_path):
    campaign = Campaign(tmp_path)
    yield campaign
    campaign.ledger.close()


def test_the_newest_proposals_are_told_once(campaign):
    campaign.propose(["AC"] * 4 + ["ACGT"] * 4 + [None] * 2 + ["AA", "CC", "GG", "TT", "AG", "GA"])
    found = campaign.follow()
    assert found["validity"] == 14 / 16
    assert found["duplicate_share"] == pytest.approx(1 - 8 / 14)
    assert found["size"] == pytest.approx((2 * 7 + 4) / 8)
    assert campaign.follow() == {}


def test_too_few_proposals_wait_for_more(campaign):
    campaign.propose(["AC"] * (LEAST_PROPOSALS - 1))
    assert campaign.follow() == {}
    campaign.propose([None])
    assert campaign.follow()["validity"] == 15 / 16


def test_what_a_person_proposes_is_not_counted(campaign):
    campaign.propose(["AC"] * 20, trajectory_id=None)
    assert campaign.follow() == {}


def test_finished_experiments_are_told_once_with_gap_components_and_replicates(campaign):
    for i, text in enumerate(["AA", "AC", "AG", "AT", "CA", "CC", "CG", "CT"]):
        campaign.measure(text, 0.5, 0.3, [(4.0, 1.0), (6.0, 1.0)], score=0.25 if i else 0.5)
    found = campaign.follow()
    assert found == {
        "proxy_gap": pytest.approx(0.2),
        "component/yield": pytest.approx(0.5),
        "component/purity": pytest.approx((7 * 0.75 + 0.5) / 8),
        "replicate_disagreement": pytest.approx(math.sqrt(2.0)),
    }
    assert campaign.follow() == {}


def test_only_complete_rewards_of_selected_designs_count(campaign):
    for text in ["AA", "AC", "AG", "AT", "CA", "CC", "CG"]:
        campaign.measure(text, 0.5, 0.3, [(4.0, 1.0)])
    campaign.measure("CT", 0.5, 0.3, [(4.0, 1.0)], status="partial")
    assert campaign.follow() == {}


def test_a_revised_or_retracted_replicate_counts_as_it_stands(campaign):
    for text in ["AA", "AC", "AG", "AT", "CA", "CC", "CG"]:
        campaign.measure(text, 0.5, 0.3, [(4.0, 1.0)])
    number, inbox = campaign.measure("CT", 0.5, 0.3, [(4.0, 1.0), (9.0, 1.0), (100.0, 1.0)])
    for replicate, changes in ((1, {"value": 6.0}), (2, {"value": None, "retracted": True})):
        row = dict(
            experiment_id=number, inbox_id=inbox, assay="yield", replicate=replicate, revision=1, unit="%",
            standard_error=1.0, quality="good", measured_at=0.0, received_at=0.0,
        )  # fmt: skip
        campaign.write(MeasurementRow(**row | changes))
    found = campaign.follow()
    assert found["replicate_disagreement"] == pytest.approx(math.sqrt(2.0))
    assert found["component/yield"] == pytest.approx((7 * 0.4 + 0.5) / 8)


def test_without_predictions_there_is_no_gap(campaign):
    for text in ["AA", "AC", "AG", "AT", "CA", "CC", "CG", "CT"]:
        campaign.measure(text, None, 0.3, [(4.0, None)])
    assert campaign.follow() == {"component/yield": pytest.approx(0.4)}


def test_the_commonest_scaffold_is_counted_among_distinct_molecules():
    space = MoleculeSpace()
    smiles = ["Cc1ccccc1", "Cc1ccccc1", "CCc1ccccc1", "C1CCCCC1", "CCO"]
    found = shape([("molecule", space.design(text).value) for text in smiles])
    assert found == {
        "duplicate_share": pytest.approx(1 / 5),
        "scaffold_share": 2 / 4,
        "size": (7 + 8 + 6 + 3) / 4,
    }


def test_conditions_have_duplicates_and_no_size():
    one, other = {"solvent": "DMF"}, {"solvent": "ethanol"}
    assert shape([("conditions", one), ("conditions", one), ("conditions", other)]) == {
        "duplicate_share": pytest.approx(1 / 3)
    }
    assert shape([]) == {}


def test_the_birge_ratio_is_one_when_replicates_scatter_as_declared():
    # Σ (x − x̄)² = 2 of two values one apart from their mean; √(2 / (1 · u²)) is 1 for u = √2.
    assert birge_ratio([[(1.0, math.sqrt(2)), (3.0, math.sqrt(2))]]) == pytest.approx(1.0)
    assert birge_ratio([[(1.0, 1.0), (3.0, 1.0)], [(5.0, 1.0), (5.0, 1.0), (5.0, 1.0)]]) == pytest.approx(
        math.sqrt(2 / 3)
    )
    assert birge_ratio([[(1.0, None), (3.0, None)], [(2.0, 1.0)], [(1.0, 0.0), (2.0, 0.0)]]) is None


def test_a_component_of_which_nothing_is_known_is_left_out():
    assert components(OBJECTIVE, {(1, "yield"): [(2.0, None), (4.0, None)]}, {}) == {"component/yield": 0.3}
    assert components(OBJECTIVE, {}, {"purity": [0.25, 0.75]}) == {"component/purity": 0.5}
