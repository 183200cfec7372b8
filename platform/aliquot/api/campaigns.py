"""`/api/v1`: submit campaigns, watch them, steer them, fetch what they found."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from importlib.metadata import version
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel
from sqlmodel import col, select

from aliquot.api.bodies import document
from aliquot.api.folders import CampaignFolder, Folders, Wanted
from aliquot.api.problems import ProblemDocument
from aliquot.campaigns.load import parse
from aliquot.campaigns.progress import Progress, progress
from aliquot.campaigns.report import render
from aliquot.campaigns.results import results, write_csv
from aliquot.campaigns.run import ENDED
from aliquot.campaigns.spec import CampaignSpec
from aliquot.domain import CampaignState, ConfigError
from aliquot.domain.errors import Problem
from aliquot.ledger import EventRow, Ledger
from aliquot.trainer.policies import shipped_policies

EVENTS_AT_ONCE = 1000

router = APIRouter(
    responses={404: {"model": ProblemDocument}, 409: {"model": ProblemDocument}, 422: {"model": ProblemDocument}}
)


class CampaignView(BaseModel):
    """One campaign as the server knows it."""

    id: str
    name: str
    state: CampaignState
    wanted: Wanted
    """What was asked for last; the state follows."""
    working: bool
    """A process works on it now. A campaign that should and does not is waiting for its turn."""
    note: str
    """Why it stopped by itself, when it did."""
    submitted_at: float
    """Unix seconds."""
    progress: Progress | None
    """None until it has begun."""
    links: dict[str, str]


class Event(BaseModel):
    """One entry of a campaign's log; `sequence` has no gaps."""

    sequence: int
    at: float
    """Lab clock, Unix seconds."""
    kind: str
    data: dict[str, Any]


def folders_of(request: Request) -> Folders:
    return request.app.state.folders


def folder_of(id: str, folders: Annotated[Folders, Depends(folders_of)]) -> CampaignFolder:
    try:
        return folders.get(id)
    except KeyError:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"there is no campaign {id!r}") from None


def ledger_of(
    folder: Annotated[CampaignFolder, Depends(folder_of)], folders: Annotated[Folders, Depends(folders_of)]
) -> Ledger:
    ledger = folders.ledger(folder)
    if ledger is None:
        raise HTTPException(HTTPStatus.CONFLICT, "the campaign has not begun yet; nothing is known of it")
    return ledger


AllFolders = Annotated[Folders, Depends(folders_of)]
OneFolder = Annotated[CampaignFolder, Depends(folder_of)]
OneLedger = Annotated[Ledger, Depends(ledger_of)]


def view(folder: CampaignFolder, folders: Folders) -> CampaignView:
    campaign, ledger = folders.campaign(folder), folders.ledger(folder)
    begun = campaign is not None and campaign.id is not None and ledger is not None
    here = f"/api/v1/campaigns/{folder.id}"
    return CampaignView(
        id=folder.id,
        name=folder.name,
        state=folders.state(folder),
        wanted=folder.wanted,
        working=folder.worker() is not None,
        note=folder.note,
        submitted_at=folder.submitted_at,
        progress=progress(ledger, campaign.id) if begun else None,  # type: ignore[arg-type, union-attr]
        links={"self": here} | {name: f"{here}/{name}" for name in ("results", "report", "events")},
    )


def submitted(content: Annotated[Any, Depends(document)]) -> CampaignSpec:
    """The campaign in a body.

    Raises:
        ConfigError: it cannot run, or it names files of this machine; those are not even looked at.
    """
    if files := list(_files(content)):
        raise ConfigError("campaign", files)
    policy = content.get("policy") if isinstance(content, dict) else None
    init = policy.get("init", "fresh") if isinstance(policy, dict) else "fresh"
    if init not in (names := ["fresh", *shipped_policies()]):
        raise ConfigError("campaign", [("policy.init", init, f"over HTTP a policy is one of: {', '.join(names)}")])
    return parse(content, "campaign")


def _files(content: Any) -> Iterator[Problem]:
    sections = content if isinstance(content, dict) else {}
    verifiers, lab = sections.get("verifiers"), sections.get("lab")
    plugins = [(f"verifiers[{i}]", one) for i, one in enumerate(verifiers if isinstance(verifiers, list) else [])]
    for path, section in [*plugins, ("lab", lab)]:
        kind = section.get("type") if isinstance(section, dict) else section
        if kind is not None and not isinstance(kind, str):
            yield f"{path}.type", repr(kind)[:80], "the name of a built-in or installed plugin, as text"
        elif isinstance(kind, str) and (".py" in kind or "/" in kind or kind.startswith((".", "~"))):
            yield f"{path}.type", kind, "over HTTP only built-in and installed plugins; files are for `aliquot run`"
    if isinstance(lab, dict) and lab.get("path") is not None:
        yield "lab.path", lab["path"], "over HTTP the server chooses where a lab keeps its memory; leave it out"


@router.get("/health")
def health() -> dict[str, str]:
    return {"status": "ok", "version": version("aliquot")}


@router.post("/campaigns", status_code=HTTPStatus.CREATED, responses={400: {"model": ProblemDocument}, 413: {"model": ProblemDocument}, 415: {"model": ProblemDocument}, 503: {"model": ProblemDocument}})  # fmt: skip  # noqa: E501
def submit(spec: Annotated[CampaignSpec, Depends(submitted)], folders: AllFolders, response: Response) -> CampaignView:
    """Submit a campaign: the same document as `aliquot run` reads, as JSON or YAML."""
    made = view(folders.create(spec), folders)
    response.headers["Location"] = made.links["self"]
    return made


@router.get("/campaigns")
def list_campaigns(folders: AllFolders) -> list[CampaignView]:
    """Every campaign, oldest first."""
    return [view(folder, folders) for folder in folders.all()]


@router.get("/campaigns/{id}")
def get_campaign(folder: OneFolder, folders: AllFolders) -> CampaignView:
    """One campaign and how it stands."""
    return view(folder, folders)


@router.get("/campaigns/{id}/results", response_model=None)
def get_results(
    folder: OneFolder, ledger: OneLedger, folders: AllFolders, format: Literal["json", "csv"] = "json"
) -> list[dict[str, Any]] | Response:
    """One row per experiment, as in `results.csv`."""
    rows = results(ledger, _id(folders, folder))
    if format == "json":
        return rows
    write_csv(folder.run / "results.csv", rows)
    name = f'attachment; filename="{folder.id}.csv"'
    text = (folder.run / "results.csv").read_text(encoding="utf-8")
    return Response(text, media_type="text/csv", headers={"Content-Disposition": name})


@router.get("/campaigns/{id}/report", response_class=HTMLResponse)
def get_report(folder: OneFolder, ledger: OneLedger, folders: AllFolders) -> str:
    """The page of a campaign: as it ended, or as things stand."""
    if folder.report.exists() and folders.state(folder) in ENDED:
        return folder.report.read_text(encoding="utf-8")
    return render(ledger, _id(folders, folder), folder.run, None)


@router.get("/campaigns/{id}/events")
def get_events(
    folder: OneFolder, ledger: OneLedger, folders: AllFolders, after: Annotated[int, Query(ge=0, le=2**62)] = 0
) -> list[Event]:
    """Up to 1,000 entries of the log after a sequence number, in order."""
    mine = (EventRow.campaign_id == _id(folders, folder), col(EventRow.sequence) > after)
    with ledger.read() as session:
        rows = session.exec(select(EventRow).where(*mine).order_by(col(EventRow.sequence)).limit(EVENTS_AT_ONCE)).all()
    return [Event(sequence=row.sequence, at=row.at, kind=row.kind, data=row.data) for row in rows]


@router.post("/campaigns/{id}/pause", status_code=HTTPStatus.ACCEPTED)
def pause(folder: OneFolder, folders: AllFolders) -> CampaignView:
    """Stop after the round under way, with everything saved."""
    return _want(folder, folders, Wanted.PAUSED)


@router.post("/campaigns/{id}/resume", status_code=HTTPStatus.ACCEPTED)
def resume(folder: OneFolder, folders: AllFolders) -> CampaignView:
    """Go on from exactly where it stopped."""
    return _want(folder, folders, Wanted.RUNNING)


@router.post("/campaigns/{id}/cancel", status_code=HTTPStatus.ACCEPTED)
def cancel(folder: OneFolder, folders: AllFolders) -> CampaignView:
    """End it for good; what is known stays."""
    return _want(folder, folders, Wanted.CANCELLED)


def _want(folder: CampaignFolder, folders: Folders, wanted: Wanted) -> CampaignView:
    state = folders.state(folder)
    if state in ENDED or folder.wanted is Wanted.CANCELLED:
        raise HTTPException(HTTPStatus.CONFLICT, f"the campaign is {state} for good")
    if state is CampaignState.FAILED and wanted is not Wanted.RUNNING:
        raise HTTPException(HTTPStatus.CONFLICT, "the campaign has failed: it can be resumed once the cause is mended")
    folder.want(wanted)
    return view(folder, folders)


def _id(folders: Folders, folder: CampaignFolder) -> int:
    campaign = folders.campaign(folder)
    assert campaign is not None and campaign.id is not None
    return campaign.id
