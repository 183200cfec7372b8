"""Designs and verdicts of molecule verifiers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aliquot.domain import Design
from aliquot.verifiers.sdk import Score


@pytest.fixture(scope="session")
def judge() -> Callable[..., list[Score]]:
    """The scores that a verifier gives to SMILES."""
    return lambda verifier, *smiles: list(verifier.verify([Design(kind="molecule", value=s) for s in smiles]))
