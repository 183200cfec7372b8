"""`aliquot run`: a campaign from its file to its results, stopped and resumed at will."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aliquot.cli.boundary import STOPPED, program, reported
from aliquot.cli.check import Assignments

if TYPE_CHECKING:
    from aliquot.campaigns.run import CampaignRun

RUNS = Path("runs")


def run(
    campaign: Annotated[Path | None, typer.Argument(metavar="CAMPAIGN.yaml", help="The campaign to run.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the run.  [default: runs/NAME-NUMBER]")
    ] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Go on with the run in this folder.")] = None,
    assignments: Assignments = [],  # noqa: B006  Typer copies it
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only where the results are.")] = False,
) -> None:
    """Run a campaign, or go on with one. Ctrl-C leaves a run that can be resumed."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: on shared cores two threads are slower than one
    with reported():
        from rich.console import Console

        from aliquot.cli.stopping import stopping
        from aliquot.cli.view import ProgressView
        from aliquot.domain import CampaignState

        with _opened(campaign, out, resume, assignments) as work:
            again = f"{program()} run --resume {shlex.quote(str(work.folder))}"
            with ProgressView(Console(), quiet) as view, stopping(view.say) as stop:
                if not quiet:
                    view.say(f"Running {work.spec.name} in {work.folder}. Ctrl-C stops it; it can be resumed.")
                try:
                    state = work.run(view, stop)
                except KeyboardInterrupt:
                    state = None
                if state in (None, CampaignState.PAUSED):
                    why = "Stopped" if stop.is_set() or state is None else f"Paused: {work.progress().reason}"
                    view.say(f"{why.rstrip('.')}. Nothing is lost; to go on:\n  {again}")
                    raise typer.Exit(STOPPED)
                if not quiet:
                    view.say("Writing the results.")
                work.write_results()
            _say_where(work)
            if state not in (CampaignState.COMPLETED, CampaignState.EXHAUSTED):
                typer.echo(f"The campaign is {state}. When the cause is mended: {again}", err=True)
                raise typer.Exit(1)


def _opened(campaign: Path | None, out: Path | None, resume: Path | None, assignments: list[str]) -> CampaignRun:
    """A run to go on with, or a new one; its folder is made last, when all the rest is known to be good.

    Raises:
        ConfigError: the campaign, or the folder, is not fit for it, or they do not belong together.
    """
    from aliquot.domain import ConfigError

    if campaign is None and resume is None:
        remedy = "give a campaign file to begin a run, or --resume DIR to go on with one"
        raise ConfigError("aliquot run", [("CAMPAIGN.yaml", None, remedy)])
    if resume is not None and (out is not None or (assignments and campaign is None)):
        remedy = "a run goes on as it began, in its own folder: leave out --out and --set"
        raise ConfigError("aliquot run", [("--resume", str(resume), remedy)])

    from aliquot.campaigns.load import load
    from aliquot.campaigns.run import CampaignRun

    wanted = load(campaign, assignments) if campaign is not None else None
    if resume is None:
        assert wanted is not None
        return CampaignRun.create(wanted, out or _next_folder(wanted.name))
    work = CampaignRun.open(resume)
    if wanted is not None and wanted != work.spec:
        work.close()
        changed = [key for key in type(wanted).model_fields if getattr(wanted, key) != getattr(work.spec, key)]
        remedy = f"the run in {resume} began with another {', '.join(changed)}: resume it without a file, or begin anew"
        raise ConfigError(str(campaign), [(changed[0], getattr(wanted, changed[0]), remedy)])
    return work


def _next_folder(name: str) -> Path:
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    taken = [path.name.removeprefix(f"{stem}-") for path in RUNS.glob(f"{stem}-*")]
    return RUNS / f"{stem}-{max((int(number) for number in taken if number.isdecimal()), default=0) + 1}"


def _say_where(work: CampaignRun) -> None:
    folder, now = work.folder, work.progress()
    typer.echo(f"{now.name}: {now.state}{f', {now.reason}' if now.reason else ''}")
    if now.best is not None:
        typer.echo(f"Best      {now.best.value:.3f}  {now.best.design}")
    typer.echo(f"Results   {folder}")
    typer.echo(f"Page      {folder / 'report.html'}")
    typer.echo(f"Learning  {program('tensorboard')} --logdir {shlex.quote(str(folder))}")
