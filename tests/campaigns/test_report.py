from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from sqlmodel import select

from aliquot.campaigns.report import history, molecules, render
from aliquot.campaigns.report.theme import VARIABLES
from aliquot.clock import EPOCH
from aliquot.domain import RewardRule
from aliquot.ledger import CampaignRow, DesignRow, Ledger

BASELINE = np.linspace(0.0, 0.6, 50)


@pytest.fixture(scope="module")
def page(by_hand) -> str:
    return render(*by_hand, Path("runs/a run"), BASELINE)


class Elements(HTMLParser):
    """Open and closed elements, and everything that would make a browser ask for something."""

    void = {"meta", "br", "link", "img", "input", "hr"}

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.references: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.references += [v for k, v in attributes if k in ("src", "href", "xlink:href", "action") and v]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.references += [v for k, v in attributes if k in ("src", "href", "xlink:href") and v]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_needs_neither_network_nor_script(page):
    elements = Elements(page)
    assert elements.open == []
    assert not {"script", "link", "img", "iframe"} & set(elements.seen)
    assert all(reference.startswith("#") for reference in elements.references)
    assert "@import" not in page and not re.search(r"url\((?!#)", page)


def test_the_title_is_a_sentence_with_the_number_in_it(page):
    # 3 whole experiments: 1, 3 and 5
    assert re.search(r"<h2>Best 0\.866 after 3 of 10 experiments; 3 at random would give 0\.4\d+ \(90 %: ", page)


def test_the_four_questions_are_answered(page):
    for question in ("Is it all right?", "The best so far", "What is it waiting for?", "Does it need me?"):
        assert question in page
    assert "1 to be sent · 1 out · 2 partly back" in page


def test_the_best_are_drawn_in_order_with_their_experiment(page):
    drawn = re.findall(r'class="molecule" role="img" aria-label="([^"]+)"', page)
    assert drawn == ["CCCl", "CCO", "c1ccccc1C"]
    assert page.index("experiment 5</span>") < page.index("experiment 1</span>")


def test_conditions_stand_in_a_table_with_their_units(by_hand_copy, tmp_path):
    ledger, campaign_id = by_hand_copy
    with ledger.write() as session:
        campaign = session.get(CampaignRow, campaign_id)
        parameters = [{"name": "temperature", "unit": "°C"}, {"name": "solvent"}]
        campaign.spec = campaign.spec | {"space": {"type": "conditions", "parameters": parameters}}
        for row in session.exec(select(DesignRow)):
            row.kind, row.value = "conditions", {"temperature": -102.5, "solvent": "water"}
    page = render(ledger, campaign_id, tmp_path)
    assert "<th>temperature [°C]</th><th>solvent</th>" in page
    assert "<td>−102.5</td><td>water</td>" in page
    assert 'class="molecule"' not in page


def test_drawings_and_charts_take_their_colours_from_the_page(page):
    body = page[page.index("<body>") :]
    assert not [colour for colour in VARIABLES if colour in body]
    assert "#000000" not in body and "fill:#FFFFFF" not in body
    assert "var(--accent)" in body and "var(--ink)" in body


def test_molecules_with_one_scaffold_have_it_in_one_place():
    from rdkit import Chem

    indole = Chem.MolFromSmiles("c1ccc2[nH]ccc2c1")
    places = []
    for molecule in molecules.lay_out(["Cc1ccc2[nH]ccc2c1", "CCO", "COc1ccc2[nH]ccc2c1CC"]):
        atoms = list(molecule.GetSubstructMatch(indole))
        places.append(molecule.GetConformer().GetPositions()[atoms])
    np.testing.assert_allclose(places[0], places[2], atol=1e-4)


def test_what_failed_is_told_with_what_it_taught(by_hand):
    ledger, campaign_id = by_hand
    with ledger.read() as session:
        found = {t.what: (t.why, t.number, t.taught) for t in history.troubles(session, campaign_id)}
    assert found == {
        "proposal invalid": ("invalid design: 'C(' is not a valid SMILES", 3, "the objective's floor"),
        "experiment failed": ("lab failure: precipitated", 1, "the assay's failure value"),
        "experiment expired": ("timed out: no last word within 100 hours", 1, history.TAUGHT[RewardRule.MISSING]),
        "design refused by size": ("3 heavy atoms, below 5", 1, "the objective's floor"),
    }


def test_a_delay_runs_from_dispatch_to_the_last_first_word(by_hand):
    ledger, campaign_id = by_hand
    with ledger.read() as session:
        hours = history.delays(session, campaign_id)
    assert {assay: sorted(values) for assay, values in hours.items()} == {
        "potency": [9.0, 13.0, 14.0, 28.0],
        "solubility": [6.0, 16.0, 18.0],
    }


def test_tiers_and_metrics_follow_the_steps_of_the_branch(by_hand):
    ledger, campaign_id = by_hand
    with ledger.read() as session:
        steps, counts = history.tiers(session, campaign_id)
        metrics = history.trained(session, campaign_id)
    assert steps == [1, 2, 3, 4]
    assert (counts["fresh"], counts["old"], counts["ancient"]) == ([1, 1, 0, 0], [0] * 4, [0, 0, 1, 0])
    assert metrics["kl_k3"] == pytest.approx([0.01, 0.02, 0.03, 0.04])


def test_the_commands_name_the_folder_as_a_shell_would_read_it(page):
    assert "aliquot run --resume &#39;runs/a run&#39;" in page


def test_a_campaign_that_has_done_nothing_yet_has_a_page_and_it_is_the_same_again(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    spec = {"space": {"type": "sequence"}, "budget": {"experiments": 4}}
    target = {"assay": "binding", "desirability": {"type": "ramp", "low": 0, "high": 1}}
    with ledger.write() as session:
        row = CampaignRow(
            name="Empty", spec=spec | {"objective": {"targets": [target]}}, clock=EPOCH, created_at=EPOCH
        )  # fmt: skip
        session.add(row)
        session.flush()
    page = render(ledger, row.id, tmp_path, BASELINE)
    assert "No experiment is complete yet, of 4" in page
    assert Elements(page).open == []
    assert render(ledger, row.id, tmp_path, BASELINE) == page
    ledger.close()


def test_without_a_baseline_nothing_is_claimed_of_chance_and_no_name_can_write_into_the_page(by_hand_copy, tmp_path):
    ledger, campaign_id = by_hand_copy
    with ledger.write() as session:
        session.get(CampaignRow, campaign_id).reason = "<script>alert(1)</script>"
    page = render(ledger, campaign_id, tmp_path, None)
    assert "at random" not in page
    assert "<script" not in page and "&lt;script&gt;" in page
