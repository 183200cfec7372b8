"""`aliquot reverify`: a verifier was mended, and what it said before is worth another look."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from aliquot.cli.boundary import reported


def reverify(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="The run's folder; nothing may be running in it.")],
    verifier: Annotated[
        str, typer.Option(metavar="NAME[@VERSION]", help="Its name in the campaign, and the version it must have now.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Judge again all designs that a verifier judged under other code, and issue the reward revisions that follow."""
    with reported():
        from aliquot.campaigns.run import CampaignRun

        name, _, version = verifier.partition("@")
        with CampaignRun.open(run) as campaign:
            found = campaign.reverify(name, version or None)
        if as_json:
            typer.echo(json.dumps(found.model_dump()))
            return
        typer.echo(
            f"{found.verifier} {found.version} judged {found.judged} designs again: {found.changed} differ, "
            f"{found.errors} could not be judged, {found.rewards} rewards were revised."
        )
        if found.rewards:
            typer.echo(f"The policy learns the difference when the campaign goes on: aliquot run --resume {run}")
