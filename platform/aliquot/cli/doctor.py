"""`aliquot doctor`: what this machine has, and what that allows."""

from __future__ import annotations

from typing import Annotated

import typer


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Say what this machine has, and what that allows."""
    import json
    from dataclasses import asdict

    from aliquot.cli.machine import findings

    found = findings()
    if as_json:
        typer.echo(json.dumps({finding.name: asdict(finding) for finding in found}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("", "this machine has", "which allows"):
        table.add_column(title)
    for finding in found:
        mark = "[green]yes[/]" if finding.present else "[yellow]no [/]"
        table.add_row(f"{mark} {finding.name}", finding.found, finding.allows)
    Console().print(table)
