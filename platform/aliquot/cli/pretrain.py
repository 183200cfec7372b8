"""`aliquot pretrain`: a prior from a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aliquot.cli.boundary import STOPPED, reported


def pretrain(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.yaml", help="Corpus, shape, schedule and output.")],
    work: Annotated[
        Path, typer.Option(metavar="DIR", help="Checkpoints and the log go to a folder of the prior's name in here.")
    ] = Path("runs/pretraining"),
) -> None:
    """Pretrain a policy. An interrupted run goes on from its last checkpoint when it is called again."""
    with reported():
        from aliquot.trainer.pretraining.driver import run_pretraining

        try:
            output = run_pretraining(config, work, typer.echo)
        except KeyboardInterrupt:
            typer.echo("Stopped. The same command goes on from the last checkpoint.", err=True)
            raise typer.Exit(STOPPED) from None
        typer.echo(f"The policy and its model card: {output}")
