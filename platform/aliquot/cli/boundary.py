"""Where an error of the project becomes a message and an exit code. What is not ours keeps its traceback."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

WRONG_INPUT = 2
STOPPED = 130


@contextmanager
def reported() -> Iterator[None]:
    """Turn a `ConfigError` into exit 2, any other error of the project into exit 1, a missing extra into advice."""
    try:
        from aliquot.domain import AliquotError, ConfigError

        try:
            yield
        except ConfigError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(WRONG_INPUT) from None
        except AliquotError as error:
            typer.echo(f"{type(error).__name__}: {error}", err=True)
            raise typer.Exit(1) from None
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "aliquot":
            raise
        typer.echo(f"{error.name} is not installed; this command needs: pip install 'aliquot[server]'", err=True)
        raise typer.Exit(WRONG_INPUT) from None


def program(name: str = "aliquot") -> str:
    """How a person can call a program of this installation from where they are."""
    beside, found = Path(sys.prefix) / "bin" / name, shutil.which(name)
    if found and Path(found).resolve() == beside.resolve():
        return name
    inside = beside.is_relative_to(Path.cwd())
    return shlex.quote(str(beside.relative_to(Path.cwd()) if inside else beside))
