"""Instability index: ten times the mean weight of a protein's dipeptides; below 40 a protein is taken for stable.

Source: Guruprasad, Reddy & Pandit, Protein Engineering 4, 155 (1990), who found which dipeptides are more common in
proteins that are degraded within hours in vivo. Dipeptides that are not listed weigh 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import FiniteFloat

from aliquot.domain import Design
from aliquot.verifiers.builtin.sequences.reading import residues
from aliquot.verifiers.sdk import Fixture, Needs, PointwiseVerifier, Score, VerifierConfig

_DIPEPTIDES = {
    -15.91: "YR",
    -14.03: "DT EW FK NF NG TN TW VD WA WT",
    -9.37: "HF HG NW WG YW",
    -7.49: "AD AH DK GA GI GK GN GT GY IK IV KG KI KL KV LK NT RG TG VG VT WV YG YT",
    -6.54: "CQ CV DF DR EH GE HT KP MQ MR NQ PC PD PM PR QC QF QV QY RY TQ VY YE",
    -1.88: "HP HW IP MM MT NC NP PW VK",
    13.34: "FD GG GW IH MA RN TF WL WN YH YP YY",
    18.38: "PE",
    20.26: "AP CD CL CP DS ED EI EP EQ ES FP IL LP LR PA PF PP PQ PS PV QD QE QP QQ RH RP RQ SE SQ SR SS TE VP",
    24.64: "KQ",
    24.68: "CW HK HN LW MY NK WH WM YA YD",
    33.60: "CH CM CT EE FY KM KR LQ SC",
    44.94: "AC EC HI HY IE MP MS NI QS RS SP YM",
    58.28: "MH RR RW",
}
WEIGHTS = {dipeptide: weight for weight, listed in _DIPEPTIDES.items() for dipeptide in listed.split()}


class InstabilityIndexConfig(VerifierConfig):
    maximum: FiniteFloat | None = 40.0
    """Refuse proteins above it; None: score only."""


class InstabilityIndex(PointwiseVerifier):
    """Instability index, no unit: -160 to 583, mostly 0 to 100."""

    name, version = "instability_index", "1"
    kinds = ("sequence",)
    bounds = (-160.0, 583.0)
    needs = Needs(seconds=1)
    Config = InstabilityIndexConfig
    fixtures = (
        Fixture.full("sequence", "RWRWRWRWRW", at_least=250.0, accepted=False),
        Fixture.zero("sequence", "NGNGNGNGNG", at_most=-60.0, accepted=True),
        Fixture.malformed("sequence", "MKLX"),
        Fixture.malformed("sequence", ""),
        Fixture.seeded("sequence", "MAEGEITTFTALTEK"),
    )

    def verify(self, designs: Sequence[Design]) -> Iterable[Score]:
        maximum = self.config.maximum
        for design in designs:
            sequence = residues(design)
            pairs = (sequence[i : i + 2] for i in range(len(sequence) - 1))
            index = 10 / len(sequence) * sum(WEIGHTS.get(pair, 1.0) for pair in pairs)
            accepted = maximum is None or index <= maximum
            yield Score(index, accepted, "" if accepted else f"instability index {index:.1f} is above {maximum:g}")
