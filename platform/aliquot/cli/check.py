"""`aliquot check`: a campaign that passes here is a campaign that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aliquot.cli.boundary import reported

Assignments = Annotated[
    list[str], typer.Option("--set", metavar="KEY.KEY=VALUE", help="Change one value of the file; may be repeated.")
]


def check(
    campaign: Annotated[Path, typer.Argument(metavar="CAMPAIGN.yaml", help="The campaign to look at.")],
    assignments: Assignments = [],  # noqa: B006  Typer copies it
) -> None:
    """Validate a campaign and print it with every default filled in."""
    with reported():
        import yaml

        from aliquot.campaigns.load import load

        spec = load(campaign, assignments)
        typer.echo(yaml.safe_dump(spec.model_dump(mode="json"), sort_keys=False, allow_unicode=True), nl=False)
        typer.echo(f"{campaign} is a campaign that can run.", err=True)
