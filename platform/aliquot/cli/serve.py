"""`aliquot serve`: the HTTP API and its page on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from aliquot.cli.boundary import reported


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; only this machine itself for now.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0: any free one.")] = 8000,
    data: Annotated[Path, typer.Option(metavar="DIR", help="Where campaigns are kept.")] = Path("runs/server"),
) -> None:
    """Serve campaigns over HTTP. Campaigns that were running when it stopped go on when it starts again."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with reported():
        from aliquot.api.server import serve as listen

        listen(host, port, data, typer.echo)
