"""`aliquot sandbox doctor`: prove that this machine can contain a stranger's plugin."""

from __future__ import annotations

from typing import Annotated

import typer

sandbox = typer.Typer(
    help="The sandbox in which plugins run that are not trusted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@sandbox.callback()
def group() -> None:
    """The sandbox in which plugins run that are not trusted."""


@sandbox.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Send a canary that tries to get out; exit 1 when untrusted plugins are refused here."""
    import json
    from dataclasses import asdict

    from aliquot.cli.boundary import reported

    with reported():
        from aliquot.isolation.doctor import examine

        examination = examine(fresh=True)
    if as_json:
        said = asdict(examination) | {"sufficient": examination.sufficient, "reasons": examination.reasons}
        typer.echo(json.dumps(said, indent=2))
    else:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="dim")
        for title in ("", "what was tried", "what came of it"):
            table.add_column(title)
        for control in examination.controls:
            waived = control.name in examination.waived
            mark = "[green]held[/]  " if control.held else "[yellow]waived[/]" if waived else "[red]open[/]  "
            shown = "refused, or as it should be" if control.held else f"{control.found}\n→ {control.remedy}"
            table.add_row(f"{mark} {control.name}", escape(control.tried), escape(shown))
        console = Console()
        console.print(table)
        verdict = (
            "Untrusted plugins run here, contained." if examination.sufficient else "Untrusted plugins are refused."
        )
        console.print(f"\n{verdict} Tier: {examination.tier}.")
    if not examination.sufficient:
        raise typer.Exit(1)
