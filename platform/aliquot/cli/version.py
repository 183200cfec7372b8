"""`aliquot version`."""

from __future__ import annotations

import typer


def version() -> None:
    """Print the version."""
    from importlib.metadata import version as of

    typer.echo(f"aliquot {of('aliquot')}")
