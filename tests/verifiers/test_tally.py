"""What a ladder says of its stages, and the order it advises."""

from __future__ import annotations

import pytest

from aliquot.domain import Design
from aliquot.verifiers.ladder import VerifierLadder
from aliquot.verifiers.stage import VerifierRef
from aliquot.verifiers.tally import StageReport, advice


def stage(name: str, seconds: float, refused: int, judged: int = 100, **more) -> StageReport:
    about = {"name": name, "required": True, "weight": 1.0, "style": "pointwise"} | more
    return StageReport(judged=judged, refused=refused, seconds=seconds * judged, **about)


def test_a_ladder_counts_what_each_stage_did_and_took():
    refs = [VerifierRef(type="validity", weight=0), VerifierRef(type="qed", config={"minimum": 0.5}, weight=3)]
    designs = [Design(kind="molecule", value=smiles) for smiles in ("CC(=O)Oc1ccccc1C(=O)O", "CCO", "C1CC")]
    with VerifierLadder(refs) as ladder:
        aspirin, ethanol, _ = ladder.verify(designs)
        ladder.verify(designs[:1])
        validity, qed = ladder.reports()
    assert (validity.judged, validity.cached, validity.refused) == (3, 1, 1)
    assert (qed.judged, qed.cached, qed.refused, qed.failed, qed.weight) == (2, 1, 1, 0, 3)
    assert qed.seconds > 0 and qed.latency == pytest.approx(qed.seconds / 2) and qed.share_refused == 0.5
    assert aspirin.score == aspirin.verdicts["qed"].score  # validity has no weight


def test_the_mean_of_a_judgement_is_weighted():
    refs = [VerifierRef(type="validity", weight=1), VerifierRef(type="qed", weight=3)]
    with VerifierLadder(refs) as ladder:
        (judgement,) = ladder.verify([Design(kind="molecule", value="CCO")])
    assert judgement.score == pytest.approx((1.0 + 3 * judgement.verdicts["qed"].score) / 4)


def test_a_cheap_filter_that_refuses_much_goes_first():
    (said,) = advice([stage("validity", 0.001, 5), stage("docking", 10.0, 10), stage("alerts", 0.01, 60)])
    # by hand: 0.60 × 10 s of docking saved, 0.10 × 0.01 s of alerts lost
    assert said.startswith("put alerts before docking") and "6 s a design less" in said


@pytest.mark.parametrize(
    "reports",
    [
        [stage("validity", 0.001, 5), stage("alerts", 0.01, 60), stage("docking", 10.0, 10)],  # good as it is
        [
            stage("validity", 0.001, 5),
            stage("docking", 10.0, 1, judged=9),
            stage("alerts", 0.01, 6, judged=9),
        ],  # too few
        [stage("validity", 0.001, 5), stage("docking", 10.0, 10), stage("score", 0.01, 0, required=False)],
        [stage("validity", 0.001, 5), stage("diversity", 10.0, 10, style="set"), stage("alerts", 0.01, 60)],
        [stage("validity", 10.0, 5), stage("alerts", 0.01, 60)],  # the first one reads for the others
    ],
)
def test_no_advice_is_given_where_it_would_be_wrong(reports):
    assert advice(reports) == []


def test_money_and_tickets_are_counted(tmp_path):
    (tmp_path / "slow.py").write_text(
        "from aliquot.verifiers.sdk import *\nclass Slow(SlowVerifier):\n    name, version, cost = 'slow', '1', 2.5\n"
        "    def submit(self, designs): return [d.value for d in designs]\n"
        "    def poll(self, tickets): return {t: Score(1.0) for t in tickets if t != 'A'}\n"
    )
    with VerifierLadder([VerifierRef(name="slow", type="./slow.py:Slow")], base=tmp_path) as ladder:
        waiting = ladder.verify([Design(kind="sequence", value=value) for value in ("A", "AC")])
        assert ladder.reports()[0].waiting == 2
        ladder.poll(waiting)
        report = ladder.reports()[0]
    assert (report.waiting, report.judged, report.money) == (1, 1, 2.5)
