"""Every refusal as one document: RFC 9457 `application/problem+json`.

A campaign that cannot run carries the same list that the command line prints, as `problems`: path, value, remedy.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from aliquot.domain import ConfigError
from aliquot.domain.errors import Problem
from aliquot.isolation.containment import SandboxUnavailable

SHOWN = 300
"""Longest value, in characters of JSON, that is sent back."""


class ProblemEntry(BaseModel):
    """One thing that is wrong, and what would be right."""

    path: str
    value: Any
    remedy: str


class ProblemDocument(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    problems: list[ProblemEntry] = []


def problem(request: Request, status: int, detail: str, problems: Sequence[Problem] = ()) -> JSONResponse:
    """A refusal as a response."""
    title = HTTPStatus(status).phrase
    document = ProblemDocument(
        type=f"urn:aliquot:problem:{title.lower().replace(' ', '-')}",
        title=title,
        status=status,
        detail=detail,
        instance=request.url.path,
        problems=[ProblemEntry(path=path, value=_shown(value), remedy=remedy) for path, value, remedy in problems],
    )
    return JSONResponse(document.model_dump(), status, media_type="application/problem+json")


def install(app: FastAPI) -> None:
    """Make every error of `app` such a document."""

    @app.exception_handler(ConfigError)
    def wrong_input(request: Request, error: ConfigError) -> JSONResponse:
        count = len(error.problems)
        detail = f"{error.source}: {count} problem{'s' if count != 1 else ''}; nothing was made"
        return problem(request, HTTPStatus.UNPROCESSABLE_ENTITY, detail, error.problems)

    @app.exception_handler(SandboxUnavailable)
    def not_contained(request: Request, error: SandboxUnavailable) -> JSONResponse:
        problems = [("sandbox", None, reason) for reason in error.reasons]
        detail = "this machine cannot contain a plugin that is not trusted, so none is run; nothing was made"
        return problem(request, HTTPStatus.SERVICE_UNAVAILABLE, detail, problems)

    @app.exception_handler(RequestValidationError)
    def wrong_parameter(request: Request, error: RequestValidationError) -> JSONResponse:
        problems = [(".".join(map(str, e["loc"])), e["input"], e["msg"]) for e in error.errors()]
        return problem(request, HTTPStatus.UNPROCESSABLE_ENTITY, "a parameter of the request is wrong", problems)

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> JSONResponse:
        answer = problem(request, error.status_code, str(error.detail))
        answer.headers.update(error.headers or {})
        return answer


def _shown(value: object) -> Any:
    """The value itself when it is short JSON, else the beginning of its text."""
    try:
        if len(json.dumps(value, allow_nan=False)) <= SHOWN:
            return value
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        text = repr(value)
    except RecursionError:
        text = f"a {type(value).__name__}, nested too deeply to show"
    return text[:SHOWN]
