"""What the campaign's newest designs and measurements say, as flat numbers that monitors judge.

Always true here: nothing is said twice. A number comes with what is new in the ledger, and when nothing is new there is
none, so that one word of a slow laboratory is not counted as many.

| name                     | value |
| ------------------------ | ----- |
| `validity`               | share of the newest proposals that name a design |
| `duplicate_share`        | 1 − distinct designs / proposals that name one |
| `scaffold_share`         | share of the distinct molecules that the commonest Murcko scaffold holds |
| `size`                   | mean heavy atoms of the molecules, or symbols of the sequences |
| `proxy_gap`              | mean of predicted less measured reward, over the newest experiments |
| `component/NAME`         | mean desirability of one target, over the newest experiments |
| `replicate_disagreement` | Birge ratio of the newest experiments' replicates |

The Birge ratio is √(Σ (xᵢ − x̄)² / Σ (n − 1) u²), with u the standard error that the lab declares of a single value: 1
when replicates scatter as declared (Birge, Phys. Rev. 40, 207, 1932). Scaffolds: Bemis and Murcko, J. Med. Chem. 39,
2887, 1996; a molecule without rings has none.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sqlmodel import Session, col, select

from aliquot.domain import Objective, Quality, RewardStatus
from aliquot.ledger import DesignRow, ExperimentRow, MeasurementRow, ObjectiveRow, ProposalRow, RewardRow, VerdictRow

LEAST_PROPOSALS = 16
"""Proposals whose shares are worth saying; fewer wait for company."""
LEAST_EXPERIMENTS = 8
"""Finished experiments whose means are worth saying; fewer wait for company."""

Replicates = Mapping[tuple[int, str], Sequence[tuple[float, float | None]]]
"""(value, declared standard error) of every good replicate that stands, by experiment and assay."""


class NewestDesigns:
    """Reads one campaign's ledger. Made anew, after a crash, it may say its last word once more."""

    def __init__(self, campaign_id: int):
        self.campaign_id = campaign_id
        self._proposal, self._reward = 0, 0
        self._unsaid: dict[int, tuple[float | None, float | None]] = {}
        """(measured reward, predicted one) of finished experiments that wait for company, by their id."""

    def follow(self, session: Session) -> dict[str, float]:
        """What is new since the last call, under the names above; what cannot be said is left out."""
        return self._proposed(session) | self._measured(session)

    def _proposed(self, session: Session) -> dict[str, float]:
        query = (
            select(ProposalRow, DesignRow)
            .join(DesignRow, isouter=True)
            .where(ProposalRow.campaign_id == self.campaign_id, col(ProposalRow.id) > self._proposal)
            .where(col(ProposalRow.trajectory_id).is_not(None))
            .order_by(col(ProposalRow.id))
        )
        rows = session.exec(query).all()
        if len(rows) < LEAST_PROPOSALS:
            return {}
        self._proposal = rows[-1][0].id
        named = [(row.kind, row.value) for _, row in rows if row is not None]
        return {"validity": len(named) / len(rows)} | shape(named)

    def _measured(self, session: Session) -> dict[str, float]:
        query = (
            select(RewardRow.id, RewardRow.value, ProposalRow.predicted_mean, ProposalRow.experiment_id)
            .join(ProposalRow)
            .where(RewardRow.campaign_id == self.campaign_id, col(RewardRow.id) > self._reward)
            .where(RewardRow.status == RewardStatus.FINAL, ProposalRow.state == "selected")
            .order_by(col(RewardRow.id))
        )
        for self._reward, value, predicted, experiment in session.exec(query):
            if experiment is not None:
                self._unsaid[experiment] = value, predicted
        if len(self._unsaid) < LEAST_EXPERIMENTS:
            return {}
        fresh, self._unsaid = self._unsaid, {}
        gaps = [predicted - value for value, predicted in fresh.values() if value is not None and predicted is not None]
        replicates = _replicates(session, list(fresh))
        found = components(_objective(session, self.campaign_id), replicates, _scores(session, self.campaign_id, fresh))
        if len(gaps) >= LEAST_EXPERIMENTS:
            found["proxy_gap"] = float(np.mean(gaps))
        ratio = birge_ratio(replicates.values())
        return found if ratio is None else found | {"replicate_disagreement": ratio}


def shape(designs: Sequence[tuple[str, Any]]) -> dict[str, float]:
    """`duplicate_share`, `scaffold_share` and `size` of designs, each (kind, canonical value), duplicates included."""
    if not designs:
        return {}
    kind, distinct = designs[0][0], list(dict.fromkeys(str(value) for _, value in designs))
    found = {"duplicate_share": 1 - len(distinct) / len(designs)}
    if kind == "molecule":
        from rdkit import Chem
        from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

        molecules = [Chem.MolFromSmiles(smiles) for smiles in distinct]
        scaffolds = Counter(filter(None, (MurckoScaffoldSmiles(mol=molecule) for molecule in molecules)))
        found["size"] = float(np.mean([molecule.GetNumHeavyAtoms() for molecule in molecules]))
        found["scaffold_share"] = max(scaffolds.values(), default=0) / len(distinct)
    elif kind == "sequence":
        found["size"] = float(np.mean([len(value) for value in distinct]))
    return found


def birge_ratio(replicates: Iterable[Sequence[tuple[float, float | None]]]) -> float | None:
    """Of replicates in sets, each of one quantity; None when no set has two values with a declared error."""
    scatter, declared = 0.0, 0.0
    for rows in replicates:
        known = [(value, error) for value, error in rows if error]
        if len(known) > 1:
            values, errors = np.array(known).T
            scatter += float(((values - values.mean()) ** 2 / (errors**2).mean()).sum())
            declared += len(known) - 1
    return math.sqrt(scatter / declared) if declared else None


def components(objective: Objective, replicates: Replicates, scores: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """`component/NAME` of every target of which something is known.

    Args:
        scores: by verifier, of the designs that were measured.
    """
    means = defaultdict(list)
    for (_, assay), rows in replicates.items():
        means[assay].append(float(np.mean([value for value, _ in rows])))
    found = {}
    for target in objective.targets:
        values = means[target.name] if target.assay else scores.get(target.name, ())
        if len(values) > 0:
            good = target.desirability.of(np.asarray(values, dtype=float), target.direction == "maximise")
            found[f"component/{target.name}"] = float(good.mean())
    return found


def _objective(session: Session, campaign_id: int) -> Objective:
    query = select(ObjectiveRow).where(ObjectiveRow.campaign_id == campaign_id)
    return Objective.model_validate(session.exec(query.order_by(col(ObjectiveRow.version))).all()[-1].spec)


def _replicates(
    session: Session, experiments: Sequence[int]
) -> dict[tuple[int, str], list[tuple[float, float | None]]]:
    query = select(MeasurementRow).where(col(MeasurementRow.experiment_id).in_(experiments))
    newest = {}
    for row in session.exec(query.order_by(col(MeasurementRow.revision), col(MeasurementRow.id))):
        newest[row.experiment_id, row.assay, row.replicate] = row
    found = defaultdict(list)
    for (experiment, assay, _), row in newest.items():
        if not row.retracted and row.quality == Quality.GOOD and row.value is not None:
            found[experiment, assay].append((row.value, row.standard_error))
    return dict(found)


def _scores(session: Session, campaign_id: int, experiments: Iterable[int]) -> dict[str, list[float]]:
    query = (
        select(VerdictRow.verifier, VerdictRow.score)
        .join(ExperimentRow, col(ExperimentRow.design_key) == VerdictRow.design_key)
        .where(VerdictRow.campaign_id == campaign_id, col(ExperimentRow.id).in_(list(experiments)))
    )
    found = defaultdict(list)
    for verifier, score in session.exec(query):
        if score is not None:
            found[verifier].append(score)
    return dict(found)
