"""The files that a run leaves in its folder: the table, the summary, the resolved spec and the page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import yaml

from aliquot.campaigns.progress import campaign_row
from aliquot.campaigns.report import render
from aliquot.campaigns.results import results, summary, write_atomically, write_csv
from aliquot.ledger import Ledger


def write_results(folder: Path, ledger: Ledger, campaign_id: int, baseline: np.ndarray | None = None) -> list[Path]:
    """Write results.csv, summary.json, config.yaml and report.html into `folder`; returns their paths.

    Args:
        baseline: objective values of designs taken at random (`random_baseline`), [n]; None: the page shows none.
    """
    with ledger.read() as session:
        spec = campaign_row(session, campaign_id).spec
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "results.csv", results(ledger, campaign_id))
    texts = {
        "summary.json": json.dumps(summary(ledger, campaign_id), indent=2, ensure_ascii=False) + "\n",
        "config.yaml": yaml.safe_dump(spec, sort_keys=False, allow_unicode=True),
        "report.html": render(ledger, campaign_id, folder, baseline),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text)
    return [folder / name for name in ("results.csv", *texts)]
