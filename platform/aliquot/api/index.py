"""`/`: every campaign on one quiet page."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from aliquot.api.campaigns import AllFolders, view

PAGES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=StrictUndefined
)

router = APIRouter(include_in_schema=False)


@router.get("/", response_class=HTMLResponse)
def index(request: Request, folders: AllFolders) -> str:
    campaigns = [view(folder, folders) for folder in reversed(folders.all())]
    running = sum(campaign.working for campaign in campaigns)
    return PAGES.get_template("index.html").render(campaigns=campaigns, running=running, address=request.base_url)
