"""Bodies from outside: counted while they come, and read as JSON or YAML into plain values.

Only `application/json` and `application/yaml` are read: a page of another site cannot send either without asking first.
A small YAML document with aliases can stand for an enormous one, so values are counted as often as they are meant.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

import yaml
from fastapi import HTTPException, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_LIMIT = 1024 * 1024
"""Bytes."""
VALUES_LIMIT = 100_000


class BodyLimit:
    """ASGI middleware: a body of more than `BODY_LIMIT` bytes ends in 413, whatever its headers say."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > BODY_LIMIT:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have {BODY_LIMIT} bytes")
            return message

        await self.app(scope, counted if scope["type"] == "http" else receive, send)


async def document(request: Request) -> Any:
    """The body's content as plain values.

    Raises:
        HTTPException: 413 too large, 415 another media type, 400 not UTF-8 or not what it says it is.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in ("application/json", "application/yaml"):
        detail = f"send application/json or application/yaml, not {media_type or 'a body without a content type'}"
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail)
    body = await request.body()
    try:
        text = body.decode("utf-8")
        yaml_sent = media_type == "application/yaml"
        content = yaml.safe_load(text) if yaml_sent else json.loads(text, parse_constant=_no_constant)
        _look_over(content)
        return content
    except (ValueError, yaml.YAMLError) as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"this is not {media_type}: {error}") from None
    except RecursionError:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "the body is nested too deeply") from None


def _look_over(content: Any) -> None:
    """Count values, aliases as often as they are used, and see that every text can be written again."""
    count, waiting = 0, [content]
    while waiting:
        value, count = waiting.pop(), count + 1
        if count > VALUES_LIMIT:
            raise ValueError(f"it stands for more than {VALUES_LIMIT} values")
        if isinstance(value, str):
            value.encode("utf-8")
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list | set):
            waiting += value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")
