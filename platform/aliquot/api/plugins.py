"""`/api/v1/plugins`: verifiers that campaigns can name, archives that come in, and the administrator's approval.

Always true: an archive that comes in is unpacked and read, and nothing of it is run, fetched or built before an
administrator has approved it; until then no campaign can name it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Literal

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from aliquot.api.admin import administrator
from aliquot.api.problems import ProblemDocument
from aliquot.domain import ConfigError
from aliquot.verifiers import registry, store
from aliquot.verifiers.environment import EnvironmentFailed
from aliquot.verifiers.kit import install as kit
from aliquot.verifiers.kit.archive import ArchiveRefused

ARCHIVE = "application/gzip"

router = APIRouter(responses={401: {"model": ProblemDocument}, 404: {"model": ProblemDocument}})


class PluginView(BaseModel):
    """A verifier as campaigns name it."""

    name: str
    version: str | None
    """None: a built-in, or one of an installed package; it says its version when it is loaded."""
    origin: Literal["builtin", "adapter", "entry_point", "uploaded"]
    approved: bool
    approved_by: str = ""
    digest: str | None = None
    """Of every file of an archive."""
    requirements: tuple[str, ...] = ()


@router.get("/plugins")
def list_plugins() -> list[PluginView]:
    """Every verifier that has a name here."""
    named = [
        PluginView(name=name, version=None, origin=one.origin, approved=True)  # type: ignore[arg-type]
        for name, one in registry.known().items()
        if one.origin not in ("uploaded", "path")
    ]
    return named + [_view(plugin) for plugin in store.installed()]


@router.post("/plugins", status_code=HTTPStatus.CREATED, responses={
    415: {"model": ProblemDocument}, 413: {"model": ProblemDocument}, 422: {"model": ProblemDocument},
})  # fmt: skip
async def upload(request: Request, response: Response) -> PluginView:
    """Hand in the archive that `aliquot plugin pack` made. Sent twice, it is there once."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != ARCHIVE:
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send the archive as {ARCHIVE}")
    body = await request.body()
    plugin = await run_in_threadpool(_kept, body)
    response.headers["Location"] = f"/api/v1/plugins/{plugin.name}/{plugin.version}"
    return _view(plugin)


@router.post(
    "/plugins/{name}/{version}/approve",
    dependencies=[Depends(administrator)],
    responses={502: {"model": ProblemDocument}},
)
def approve(name: str, version: str) -> PluginView:
    """Let campaigns use it. The environment that it pins is built now."""
    try:
        with _there(name, version):
            return _view(kit.approve(name, version, by="administrator, over HTTP"))
    except EnvironmentFailed as error:
        raise HTTPException(HTTPStatus.BAD_GATEWAY, str(error)) from None


@router.delete("/plugins/{name}/{version}", status_code=HTTPStatus.NO_CONTENT, dependencies=[Depends(administrator)])
def remove(name: str, version: str) -> None:
    """Remove it. Verdicts that it gave stay, with its digest."""
    with _there(name, version):
        kit.remove(name, version)


@contextmanager
def _there(name: str, version: str) -> Iterator[None]:
    """Turns the error that there is no such plugin into 404."""
    try:
        yield
    except ConfigError:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"there is no plugin {name} {version}") from None


def _kept(body: bytes) -> store.InstalledPlugin:
    with tempfile.TemporaryDirectory(prefix="aliquot-upload-") as folder:
        archive = Path(folder) / "plugin.aliquot.tar.gz"
        archive.write_bytes(body)
        try:
            return kit.install(archive, notes={"uploaded": "over HTTP"})
        except ArchiveRefused as error:
            raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None


def _view(plugin: store.InstalledPlugin) -> PluginView:
    said = plugin.model_dump(include={"name", "version", "approved", "approved_by", "digest", "requirements"})
    return PluginView(origin="uploaded", **said)
